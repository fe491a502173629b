//! Caveats: what limits a token. Each has one text, `name = value`, and the list of names is closed.

use std::collections::BTreeSet;
use std::fmt;
use std::num::{NonZeroU32, NonZeroU64};

use crate::address_range::AddressRange;
use crate::limits::NAME_CHARS_MAX;
use crate::operation::{ApiNamespace, ApiOperation};

/// A topic prefix ends with one of these.
const SEPARATORS: [char; 3] = ['.', '/', ':'];

names! {
    /// The kind of a caveat, by its name.
    CaveatKind {
        /// The allowed operations.
        Operations "op",
        /// The allowed namespaces.
        Namespaces "namespace",
        /// The allowed topic.
        Topic "topic",
        /// What the allowed topics begin with.
        TopicPrefix "topic_prefix",
        /// The tenant.
        Tenant "tenant",
        /// The time from which the token is valid.
        NotBefore "not_before",
        /// The time at which the token ends.
        Expires "expires",
        /// The largest payload of a message.
        BytesMax "bytes_max",
        /// The rate of messages.
        Rate "rate",
        /// The addresses of clients.
        Client "client",
        /// The delivery that the token is for.
        Delivery "delivery",
        /// Who has the token.
        Name "name",
    }
}

/// A limit of a token. A token may have several of a kind: all must hold.
///
/// Kinds whose content has rules are made by [`Caveat::parse`] only, so that every value has a valid text.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Caveat {
    /// The operation is one of these.
    #[non_exhaustive]
    Operations(BTreeSet<ApiOperation>),
    /// The namespace is one of these.
    #[non_exhaustive]
    Namespaces(BTreeSet<ApiNamespace>),
    /// The topic is exactly this.
    #[non_exhaustive]
    Topic(String),
    /// The topic begins with this, and is longer.
    #[non_exhaustive]
    TopicPrefix(String),
    /// The tenant is exactly this; `*` is any tenant or none.
    #[non_exhaustive]
    Tenant(String),
    /// The token is valid from this time, in Unix seconds.
    NotBefore(u64),
    /// The token is valid before this time, in Unix seconds.
    Expires(u64),
    /// A message has at most this many bytes of payload.
    BytesMax(u64),
    /// At most this many messages per second. The server counts them.
    Rate(NonZeroU32),
    /// The address of the client is in this range.
    Client(AddressRange),
    /// The request is about this delivery.
    Delivery(DeliveryId),
    /// A name for the audit log; limits nothing.
    #[non_exhaustive]
    Name(String),
}

/// One delivery of one message. Written as `{uid}/{fence}`, the uid with hyphens and in lower case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeliveryId {
    /// The uid of the message.
    pub uid: u128,
    /// The fence of the delivery.
    pub fence: NonZeroU64,
}

impl Caveat {
    /// Parses the text of a caveat. Only the exact text that `Display` writes is accepted.
    pub fn parse(text: &str) -> Result<Self, CaveatError> {
        let (name, value) = text.split_once(" = ").ok_or(CaveatError::Form)?;
        let kind = CaveatKind::from_name(name).ok_or_else(|| CaveatError::unknown(name))?;
        let caveat = Self::of_value(kind, value).filter(|caveat| caveat.to_string() == text);
        caveat.ok_or(CaveatError::Value { kind })
    }

    fn of_value(kind: CaveatKind, value: &str) -> Option<Self> {
        if value.is_empty() || value.contains(char::is_control) {
            return None;
        }
        Some(match kind {
            CaveatKind::Operations => Self::Operations(set(value, ApiOperation::from_name)?),
            CaveatKind::Namespaces => Self::Namespaces(set(value, ApiNamespace::from_name)?),
            CaveatKind::Topic => Self::Topic(value.to_owned()),
            CaveatKind::TopicPrefix => {
                let is_prefix = value.len() > 1 && value.ends_with(SEPARATORS);
                Self::TopicPrefix(is_prefix.then(|| value.to_owned())?)
            }
            CaveatKind::Tenant => Self::Tenant(value.to_owned()),
            CaveatKind::NotBefore => Self::NotBefore(value.parse().ok()?),
            CaveatKind::Expires => Self::Expires(value.parse().ok()?),
            CaveatKind::BytesMax => Self::BytesMax(value.parse().ok()?),
            CaveatKind::Rate => Self::Rate(value.strip_suffix("/s")?.parse().ok()?),
            CaveatKind::Client => Self::Client(AddressRange::parse(value)?),
            CaveatKind::Delivery => Self::Delivery(DeliveryId::parse(value)?),
            CaveatKind::Name => {
                let fits = value.chars().count() <= NAME_CHARS_MAX;
                Self::Name(fits.then(|| value.to_owned())?)
            }
        })
    }

    /// The kind of this caveat.
    pub fn kind(&self) -> CaveatKind {
        match self {
            Self::Operations(_) => CaveatKind::Operations,
            Self::Namespaces(_) => CaveatKind::Namespaces,
            Self::Topic(_) => CaveatKind::Topic,
            Self::TopicPrefix(_) => CaveatKind::TopicPrefix,
            Self::Tenant(_) => CaveatKind::Tenant,
            Self::NotBefore(_) => CaveatKind::NotBefore,
            Self::Expires(_) => CaveatKind::Expires,
            Self::BytesMax(_) => CaveatKind::BytesMax,
            Self::Rate(_) => CaveatKind::Rate,
            Self::Client(_) => CaveatKind::Client,
            Self::Delivery(_) => CaveatKind::Delivery,
            Self::Name(_) => CaveatKind::Name,
        }
    }
}

/// A set of names. Their order and repetitions are checked by comparing the text.
fn set<T: Ord>(value: &str, from_name: fn(&str) -> Option<T>) -> Option<BTreeSet<T>> {
    value.split(',').map(from_name).collect()
}

impl fmt::Display for Caveat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = ", self.kind())?;
        match self {
            Self::Operations(operations) => write_set(f, operations),
            Self::Namespaces(namespaces) => write_set(f, namespaces),
            Self::Topic(text) | Self::TopicPrefix(text) | Self::Tenant(text) | Self::Name(text) => {
                f.write_str(text)
            }
            Self::NotBefore(number) | Self::Expires(number) | Self::BytesMax(number) => write!(f, "{number}"),
            Self::Rate(rate) => write!(f, "{rate}/s"),
            Self::Client(range) => write!(f, "{range}"),
            Self::Delivery(delivery) => write!(f, "{delivery}"),
        }
    }
}

fn write_set(f: &mut fmt::Formatter<'_>, names: &BTreeSet<impl fmt::Display>) -> fmt::Result {
    for (index, name) in names.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        write!(f, "{comma}{name}")?;
    }
    Ok(())
}

impl DeliveryId {
    fn parse(text: &str) -> Option<Self> {
        let (uid, fence) = text.split_once('/')?;
        let uid = u128::from_str_radix(&uid.replace('-', ""), 16).ok()?;
        Some(Self { uid, fence: fence.parse().ok()? })
    }
}

impl fmt::Display for DeliveryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = format!("{:032x}", self.uid);
        let (start, rest) = digits.split_at(8);
        write!(f, "{start}-{}-{}-{}-{}/{}", &rest[..4], &rest[4..8], &rest[8..12], &rest[12..], self.fence)
    }
}

/// A text that is not a caveat. Contains its name at most.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CaveatError {
    /// The text has another form.
    #[error("a caveat has the form `name = value`, with one space on each side of `=`")]
    Form,
    /// No caveat has this name.
    #[error("there is no caveat `{name}`: use another name")]
    Unknown {
        /// The name, or `?` if it could not be a name.
        name: String,
    },
    /// The value is not valid.
    #[error("the value of `{kind}` is not valid: write it as in `{}`{}", kind.example(), kind.rule())]
    Value {
        /// The kind.
        kind: CaveatKind,
    },
}

impl CaveatError {
    fn unknown(name: &str) -> Self {
        let is_name = name.len() <= NAME_CHARS_MAX
            && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'));
        Self::Unknown { name: if is_name { name } else { "?" }.to_owned() }
    }

    /// The name of the caveat, or `?`.
    pub fn name(&self) -> &str {
        match self {
            Self::Form => "?",
            Self::Unknown { name } => name,
            Self::Value { kind } => kind.as_str(),
        }
    }
}

impl CaveatKind {
    /// A valid caveat of this kind.
    pub fn example(self) -> &'static str {
        match self {
            Self::Operations => "op = ack,recv",
            Self::Namespaces => "namespace = inbox,mailbox",
            Self::Topic => "topic = orders",
            Self::TopicPrefix => "topic_prefix = orders.",
            Self::Tenant => "tenant = acme",
            Self::NotBefore => "not_before = 1798761600",
            Self::Expires => "expires = 1801440000",
            Self::BytesMax => "bytes_max = 65536",
            Self::Rate => "rate = 100/s",
            Self::Client => "client = 10.0.0.0/8",
            Self::Delivery => "delivery = 0198c5f2-8a6e-7cc3-98c4-dc0c0c07398f/7",
            Self::Name => "name = billing worker",
        }
    }

    /// What the example does not show.
    fn rule(self) -> &'static str {
        match self {
            Self::Operations | Self::Namespaces => ", known names in alphabetical order, each once",
            Self::Topic | Self::Tenant => ", not empty and without control characters",
            Self::TopicPrefix => ", a text that ends with `.`, `/` or `:`, and more than that",
            Self::NotBefore | Self::Expires => ", in Unix seconds",
            Self::BytesMax | Self::Delivery => "",
            Self::Rate => ", at least 1",
            Self::Client => ", with zeros after the prefix, and IPv4 ranges as IPv4",
            Self::Name => ", at most 64 characters without control characters",
        }
    }
}

#[cfg(test)]
mod tests;
