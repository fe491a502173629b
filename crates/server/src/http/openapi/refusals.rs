//! The refusals that routes can give, as the document lists them: each once, for the routes to point at.

use std::collections::BTreeMap;

use oncebox_wire::{Code, ErrorBody};
use utoipa::openapi::{Content, OpenApi, Ref, RefOr, Response, ResponseBuilder};
use utoipa::{IntoResponses, ToSchema};

/// Refusals of one status that mean one thing.
#[derive(Clone, Copy)]
struct Refused {
    name: &'static str,
    status: u16,
    codes: &'static [Code],
    about: &'static str,
}

const SCHEMA: Refused = Refused {
    name: "Schema",
    status: 400,
    codes: &[Code::Schema],
    about: "the request is wrong: fix it, do not repeat it",
};
const CAP_SCOPE: Refused = Refused {
    name: "CapScope",
    status: 403,
    codes: &[Code::CapScope],
    about: "the request names another host, or comes from a web page",
};
const NOT_FOUND: Refused = Refused {
    name: "NotFound",
    status: 404,
    codes: &[Code::NotFound],
    about: "there is no such thing: it was never here, or is forgotten",
};
const LEASE_LOST: Refused = Refused {
    name: "LeaseLost",
    status: 404,
    codes: &[Code::LeaseLost],
    about: "the delivery is not held any more, or never was; nothing changed",
};
const TIMEOUT: Refused = Refused {
    name: "Timeout",
    status: 408,
    codes: &[Code::Timeout],
    about: "the body took too long to arrive",
};
const DUPLICATE: Refused = Refused {
    name: "Duplicate",
    status: 409,
    codes: &[Code::Duplicate],
    about: "the idempotency key is taken: `msg_id` has it",
};
const RECEIPT: Refused = Refused {
    name: "Receipt",
    status: 409,
    codes: &[Code::Receipt],
    about: "the message was delivered more than once: name the delivery by its receipt",
};
const TOO_LARGE: Refused = Refused {
    name: "FrameTooLarge",
    status: 413,
    codes: &[Code::FrameTooLarge],
    about: "the body, or a payload in it, is too large",
};
const MEDIA_TYPE: Refused = Refused {
    name: "MediaType",
    status: 415,
    codes: &[Code::Schema],
    about: "the body is announced as something that the route does not take",
};
const INTEGRITY: Refused = Refused {
    name: "Integrity",
    status: 422,
    codes: &[Code::Integrity],
    about: "the payload does not match its hash",
};
const SATURATED: Refused = Refused {
    name: "Saturated",
    status: 429,
    codes: &[Code::Saturated],
    about: "full: `bound` says what is; slow down, and repeat the request after `Retry-After` seconds",
};
const UNSUPPORTED: Refused = Refused {
    name: "Unsupported",
    status: 501,
    codes: &[Code::Unsupported],
    about: "the request has a transfer coding that the server does not know, or the store cannot do this",
};
const UNAVAILABLE: Refused = Refused {
    name: "Unavailable",
    status: 503,
    codes: &[Code::Unavailable, Code::Corrupt],
    about: "the store is out of reach or the server is stopping: repeat the request later; or stored data is damaged",
};

/// What any request can be refused with.
const HEAD: [Refused; 3] = [SCHEMA, CAP_SCOPE, UNSUPPORTED];
/// What a request with a body can be refused with, beside that.
const BODY: [Refused; 4] = [TIMEOUT, TOO_LARGE, MEDIA_TYPE, SATURATED];

/// Types for `responses(…)`.
macro_rules! listed {
    ($($(#[$about:meta])* $name:ident: $($refused:expr),+;)+) => {$(
        $(#[$about])*
        pub(in crate::http) struct $name;

        impl IntoResponses for $name {
            fn responses() -> BTreeMap<String, RefOr<Response>> {
                let all = [$(&$refused[..]),+].concat();
                all.into_iter().map(|refused| (refused.status.to_string(), refused.reference())).collect()
            }
        }
    )+};
}

listed! {
    /// What a route that takes a body and asks the store can refuse.
    Refusals: HEAD, BODY, [UNAVAILABLE];
    /// What a route that takes no body and asks the store can refuse.
    ReadRefusals: HEAD, [UNAVAILABLE];
    /// What a route that asks nothing can refuse.
    HeadRefusals: HEAD;
    /// What is named is not there.
    NotFound: [NOT_FOUND];
    /// The delivery is not the caller's, or not named well enough.
    NotHeld: [LEASE_LOST], [RECEIPT];
    /// The key is taken.
    Duplicate: [DUPLICATE];
    /// The payload is not what it should be.
    Integrity: [INTEGRITY];
}

impl Refused {
    fn reference(self) -> RefOr<Response> {
        RefOr::Ref(Ref::from_response_name(self.name))
    }

    fn response(self) -> Response {
        let codes: Vec<_> = self.codes.iter().map(|code| format!("`{code}`")).collect();
        let body = RefOr::Ref(Ref::from_schema_name(ErrorBody::name()));
        let description = format!("{}: {}.", codes.join(", "), self.about);
        let content = Content::new(Some(body));
        ResponseBuilder::new().description(description).content("application/json", content).build()
    }
}

/// Puts all of them into a document.
pub(in crate::http) fn describe(document: &mut OpenApi) {
    let all = HEAD.into_iter().chain(BODY).chain([
        NOT_FOUND,
        LEASE_LOST,
        DUPLICATE,
        RECEIPT,
        INTEGRITY,
        UNAVAILABLE,
    ]);
    let responses = &mut document.components.get_or_insert_default().responses;
    responses.extend(all.map(|refused| (refused.name.to_owned(), RefOr::T(refused.response()))));
}
