//! The routes: each row is one method of one path, with the handler of its requests.

#[cfg(test)]
mod tests;

use hyper::Method;
use oncebox_capability::{ApiNamespace, ApiOperation};
use oncebox_wire::{ErrorCode, path};
use utoipa::OpenApi;
use utoipa::openapi::security::SecurityRequirement;

use super::api_error::ApiError;
use super::call::Call;
use super::response::Response;
use super::{dlq, health, ledger, mailbox, openapi, operator, pauses, revocations, topics};
use crate::access::Requirement;

/// A listener, and in a route the listener that it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Listener {
    /// Serves all routes.
    Public,
    /// Serves the routes of operators and monitoring only.
    Admin,
}

/// One method of one path.
pub(super) struct Route {
    pub(super) operation: Operation,
    method: Method,
    /// Also the label of the metrics. The last segment may be a parameter.
    pub(super) path: &'static str,
    listener: Listener,
    /// What it demands of a token; none for routes that everybody may use.
    pub(super) requirement: Option<Requirement>,
    /// Whether its handler runs in the future of the connection, which reserves memory for it. Other handlers that wait
    /// are boxed.
    pub(super) is_fast: bool,
}

/// Defines [`Operation`], [`ROUTES`], [`run`] and [`described`] from the table. The OpenAPI document describes all
/// rows but those after `undescribed`.
macro_rules! routes {
    (
        $(described $listener:ident {
            $($operation:ident $method:ident $path:ident $speed:ident $access:tt $($handler:ident)::+;)+
        })+
        undescribed $last:ident {
            $($other:ident $other_method:ident $other_path:ident $other_speed:ident $other_access:tt $($other_handler:ident)::+;)+
        }
    ) => {
        /// What a request asks for; one for each route.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Operation {
            $($($operation,)+)+
            $($other,)+
        }

        /// All routes, in the order of [`Operation`]. A path without a parameter precedes one with a parameter that
        /// matches it, too.
        pub(super) static ROUTES: &[Route] = &[
            $($(routes!(@row $listener $operation $method $path $speed $access),)+)+
            $(routes!(@row $last $other $other_method $other_path $other_speed $other_access),)+
        ];

        /// Runs the handler of an operation.
        pub(super) async fn run(operation: Operation, call: Call<'_>) -> Result<Response, ApiError> {
            match operation {
                $($(Operation::$operation => routes!(@run $speed call $($handler)::+),)+)+
                $(Operation::$other => routes!(@run $other_speed call $($other_handler)::+),)+
            }
        }

        /// The description of the routes of one section.
        fn described(listener: Listener) -> utoipa::openapi::OpenApi {
            match listener {
                $(Listener::$listener => {
                    #[derive(OpenApi)]
                    #[openapi(paths($($($handler)::+),+))]
                    struct Described;
                    Described::openapi()
                })+
            }
        }
    };
    (@row $listener:ident $operation:ident $method:ident $path:ident $speed:ident $access:tt) => {
        Route {
            operation: Operation::$operation,
            method: Method::$method,
            path: path::$path,
            listener: Listener::$listener,
            requirement: routes!(@requirement $access),
            is_fast: routes!(@is_fast $speed),
        }
    };
    (@requirement [open]) => {
        None
    };
    (@requirement [$operation:ident any $about:ident]) => {
        Some(Requirement {
            operation: ApiOperation::$operation,
            namespace: None,
            is_about_messages: routes!(@is_about_messages $about),
        })
    };
    (@requirement [$operation:ident $namespace:ident $about:ident]) => {
        Some(Requirement {
            operation: ApiOperation::$operation,
            namespace: Some(ApiNamespace::$namespace),
            is_about_messages: routes!(@is_about_messages $about),
        })
    };
    (@is_about_messages messages) => {
        true
    };
    (@is_about_messages whole) => {
        false
    };
    (@is_fast fast) => {
        true
    };
    (@is_fast $other:ident) => {
        false
    };
    (@run fast $call:ident $handler:expr) => {
        $handler($call).await
    };
    (@run boxed $call:ident $handler:expr) => {
        Box::pin($handler($call)).await
    };
    (@run sync $call:ident $handler:expr) => {
        $handler(&$call)
    };
}

routes! {
    described Public {
        Send             POST SEND           fast  [Send Mailbox messages]      mailbox::send::send;
        SendBatch        POST SEND_BATCH     fast  [SendBatch Mailbox messages] mailbox::send::send_batch;
        Recv             POST RECV           fast  [Recv Mailbox messages]      mailbox::receive::recv;
        Work             POST WORK           fast  [Work Mailbox messages]      mailbox::receive::work;
        Settle           POST SETTLE         fast  [Settle Mailbox messages]    mailbox::settle::settle;
        Ack              POST ACK            fast  [Ack Mailbox messages]       mailbox::settle::ack;
        Nack             POST NACK           boxed [Nack Mailbox messages]      mailbox::settle::nack;
        Extend           POST EXTEND         boxed [Extend Mailbox messages]    mailbox::settle::extend;
        RecvStream       POST RECV_STREAM    boxed [RecvStream Mailbox messages] mailbox::stream::recv_stream;
        TryBegin         POST TRY_BEGIN      boxed [TryBegin Ledger whole]      ledger::try_begin;
        GetTryBegin      GET  TRY_BEGIN      boxed [GetKey Ledger whole]        ledger::get_try_begin;
        MarkProcessed    POST MARK_PROCESSED boxed [MarkProcessed Ledger whole] ledger::mark_processed;
        GetMarkProcessed GET  MARK_PROCESSED boxed [GetKey Ledger whole]        ledger::get_mark_processed;
        Release          POST RELEASE        boxed [Release Ledger whole]       ledger::release;
        GetRelease       GET  RELEASE        boxed [GetKey Ledger whole]        ledger::get_release;
        GetKey           GET  INBOX_KEY      boxed [GetKey Ledger whole]        ledger::get;
    }
    described Admin {
        ListDeadLetters      GET  DLQ             boxed [ListDeadLetters Mailbox messages]      dlq::list;
        RedriveDeadLetters   POST DLQ_REDRIVE     boxed [RedriveDeadLetters Mailbox messages]   dlq::redrive;
        ReprocessDeadLetters POST DLQ_REPROCESS   boxed [ReprocessDeadLetters Mailbox messages] dlq::reprocess;
        ShowDeadLetter       GET  DLQ_SHOW        boxed [ShowDeadLetter Mailbox messages]       dlq::show;
        ListMessages         GET  MESSAGES        boxed [ListMessages any messages]             operator::list;
        FindMessage          GET  MESSAGE_BY_KEY  boxed [FindMessage any messages]              operator::show_by_key;
        RedriveMessages      POST REDRIVE         boxed [RedriveMessages any messages]          operator::redrive;
        PurgeMessages        POST PURGE           boxed [PurgeMessages any messages]            operator::purge;
        ShowMessage          GET  MESSAGE         boxed [ShowMessage any messages]              operator::show;
        CountMessages        GET  COUNTS          boxed [CountMessages any messages]            operator::count;
        ListTopics           GET  TOPICS          boxed [ListTopics any messages]               topics::list;
        ListPausedTopics     GET  PAUSED_TOPICS   boxed [ListPausedTopics any messages]         pauses::list;
        PauseTopic           POST PAUSE_TOPIC     boxed [PauseTopic any messages]               pauses::pause;
        ResumeTopic          POST RESUME_TOPIC    boxed [ResumeTopic any messages]              pauses::resume;
        ListRevocations      GET  REVOCATIONS     sync  [ListRevocations any whole]             revocations::list;
        Revoke               POST REVOCATIONS     boxed [Revoke any whole]                      revocations::revoke;
        Stats                GET  STATS           boxed [Stats any whole]                       health::stats;
        Healthz              GET  HEALTHZ         sync  [open]                                  health::healthz;
        Readyz               GET  READYZ          boxed [open]                                  health::readyz;
        HealthLive           GET  HEALTH_LIVE     sync  [open]                                  health::health_live;
        HealthReady          GET  HEALTH_READY    boxed [open]                                  health::health_ready;
        Metrics              GET  METRICS         boxed [Metrics any whole]                     health::metrics;
    }
    undescribed Admin {
        OpenApi GET OPENAPI sync [open] openapi::json;
        Docs    GET DOCS    sync [open] openapi::docs;
    }
}

impl Listener {
    fn serves(self, route: &Route) -> bool {
        self == Self::Public || route.listener == Self::Admin
    }

    /// Finds the route of a request.
    pub(super) fn route(self, method: &Method, path: &str) -> Result<&'static Route, ApiError> {
        let served = || ROUTES.iter().filter(move |route| self.serves(route));
        let Some(known) = served().find(|route| route.matches(path)) else {
            return Err(ApiError::new(ErrorCode::NotFound, self.no_such_path()));
        };
        let same_path = || served().filter(|route| route.path == known.path);
        same_path().find(|route| route.accepts(method)).ok_or_else(|| {
            let allowed: Vec<_> = same_path().map(Route::allowed).collect();
            ApiError::new(ErrorCode::Method, "method not allowed for this path; see /docs")
                .allow(allowed.join(","))
        })
    }

    fn no_such_path(self) -> &'static str {
        match self {
            Self::Public => "no such path; see /docs",
            Self::Admin => {
                "no such path on this address, which serves operator, health and metrics requests only; see `listen` for the rest"
            }
        }
    }

    /// Adds the routes of this listener to an OpenAPI document.
    pub(super) fn describe(self, document: &mut utoipa::openapi::OpenApi) {
        document.merge(described(Self::Admin));
        if self == Self::Public {
            document.merge(described(Self::Public));
        }
        for route in ROUTES.iter().filter(|route| self.serves(route)) {
            route.describe_requirement(document);
        }
    }
}

impl Route {
    /// Adds the operation that a token must allow. A server without keys demands no token.
    fn describe_requirement(&self, document: &mut utoipa::openapi::OpenApi) {
        let Some(requirement) = &self.requirement else { return };
        let Some(path) = document.paths.paths.get_mut(self.path) else { return };
        let operation = if self.method == Method::GET { &mut path.get } else { &mut path.post };
        let token = SecurityRequirement::new(openapi::TOKEN, [requirement.operation.as_str()]);
        if let Some(operation) = operation {
            operation.security = Some(vec![token, SecurityRequirement::default()]);
        }
    }

    /// Whether this is the path of the route.
    fn matches(&self, path: &str) -> bool {
        let Some(template) = self.path.strip_suffix('}') else { return self.path == path };
        let before = template.split_once('{').map_or(template, |(before, _)| before);
        path.strip_prefix(before).is_some_and(|parameter| !parameter.is_empty() && !parameter.contains('/'))
    }

    /// `HEAD` is `GET` without the body, which the HTTP layer omits.
    fn accepts(&self, method: &Method) -> bool {
        self.method == *method || self.method == Method::GET && *method == Method::HEAD
    }

    fn allowed(&self) -> &'static str {
        if self.method == Method::GET { "GET,HEAD" } else { "POST" }
    }

    /// The method of a request to this route, as the label of metrics.
    pub(super) fn method_label(&self, method: &Method) -> &'static str {
        match (&self.method, method) {
            (_, &Method::HEAD) => "HEAD",
            (&Method::GET, _) => "GET",
            _ => "POST",
        }
    }
}
