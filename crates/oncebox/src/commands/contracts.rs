//! The registry: which type of command is stored under which contract, and how older versions are read.

use std::any::{Any, TypeId, type_name};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use oncebox_core::{Error, Kind};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::contract::Contract;
use super::{Command, Contracted};
use crate::worker::{Failure, unreadable};

/// A command whose type only its handlers know.
pub(super) type AnyCommand = Arc<dyn Any + Send + Sync>;

/// The contracts of an application's commands. Cheap enough to clone: give the same to whoever schedules and whoever runs.
///
/// ```
/// use oncebox::commands::{Command, Contracts};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct ProcessPayment {
///     payment: u64,
///     cents: u64,
/// }
///
/// impl Command for ProcessPayment {
///     type Output = ();
/// }
///
/// # fn main() -> Result<(), oncebox::Error> {
/// let contracts = Contracts::new().register::<ProcessPayment>("payments.commands.process-payment", 1)?;
/// # Ok(())
/// # }
/// ```
///
/// A contract has a version:
/// ```compile_fail
/// # use oncebox::commands::{Command, Contracts};
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # struct ProcessPayment;
/// # impl Command for ProcessPayment {
/// #     type Output = ();
/// # }
/// let contracts = Contracts::new().register::<ProcessPayment>("payments.commands.process-payment");
/// ```
#[derive(Clone, Default)]
pub struct Contracts {
    by_type: HashMap<TypeId, Contract>,
    entries: BTreeMap<Contract, Entry>,
}

/// How a stored command is read.
#[derive(Clone)]
enum Entry {
    Type(Registered),
    /// From this version to the next.
    Upcast(Step),
}

/// A type of commands.
#[derive(Clone, Copy)]
pub(super) struct Registered {
    pub(super) id: TypeId,
    pub(super) name: &'static str,
    from_bytes: fn(&[u8]) -> Result<AnyCommand, serde_json::Error>,
    from_value: fn(Value) -> Result<AnyCommand, serde_json::Error>,
}

type Step = Arc<dyn Fn(Value) -> Result<Value, Failure> + Send + Sync>;

impl Contracts {
    /// No contracts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Commands of type `C` are stored under this name and version. The same again is fine; a type that has another contract, or
    /// a contract that has another type, is refused.
    ///
    /// Each concrete type of a generic command has a contract of its own.
    pub fn register<C>(mut self, name: &str, version: u32) -> Result<Self, Error>
    where
        C: Command<Output = ()> + Serialize + DeserializeOwned,
    {
        let contract = Contract::new(name, version)?;
        let (id, name) = (TypeId::of::<C>(), type_name::<C>());
        if let Some(known) = self.by_type.get(&id) {
            if *known == contract {
                return Ok(self);
            }
            let text =
                format!("command `{name}` is already registered as `{known}`: a type has one contract");
            return Err(Error::new(Kind::Invalid, text));
        }
        self.vacant(&contract)?;
        let registered = Registered {
            id,
            name,
            from_bytes: |bytes| Ok(Arc::new(serde_json::from_slice::<C>(bytes)?)),
            from_value: |value| Ok(Arc::new(serde_json::from_value::<C>(value)?)),
        };
        self.by_type.insert(id, contract.clone());
        self.entries.insert(contract, Entry::Type(registered));
        Ok(self)
    }

    /// The same for a type that names its contract itself, as `#[derive(Command)]` makes it do.
    pub fn add<C>(self) -> Result<Self, Error>
    where
        C: Contracted + Serialize + DeserializeOwned,
    {
        self.register::<C>(C::NAME, C::VERSION)
    }

    /// Commands that were stored under `version` are read as `Old` and turned into what the next version stores: the next
    /// version's type, or what its own upcaster reads. Versions are upcast one after another until one has a type.
    ///
    /// A failure is told as any handler's: the command is tried again, or given up by [`Failure::dead`].
    pub fn upcast<Old, New>(
        mut self,
        name: &str,
        version: u32,
        upcast: impl Fn(Old) -> Result<New, Failure> + Send + Sync + 'static,
    ) -> Result<Self, Error>
    where
        Old: DeserializeOwned,
        New: Serialize,
    {
        let contract = Contract::new(name, version)?;
        self.vacant(&contract)?;
        let step = move |value| {
            let old = serde_json::from_value(value).map_err(|error| unread(&error))?;
            serde_json::to_value(upcast(old)?).map_err(|_| Failure::retry("an upcaster's result is not JSON"))
        };
        self.entries.insert(contract, Entry::Upcast(Arc::new(step)));
        Ok(self)
    }

    fn vacant(&self, contract: &Contract) -> Result<(), Error> {
        let owner = match self.entries.get(contract) {
            None => return Ok(()),
            Some(Entry::Type(registered)) => format!("for command `{}`", registered.name),
            Some(Entry::Upcast(_)) => "as one that is upcast".to_owned(),
        };
        let text = format!("contract `{contract}` is already registered {owner}: take the next version");
        Err(Error::new(Kind::Invalid, text))
    }

    /// The contract of a type.
    pub(super) fn of<C: Command>(&self) -> Result<&Contract, Error> {
        self.by_type.get(&TypeId::of::<C>()).ok_or_else(|| {
            let name = type_name::<C>();
            let text =
                format!("command `{name}` is not registered: give its contract to `Contracts::register`");
            Error::new(Kind::Invalid, text)
        })
    }

    /// Every contract that can be read, with the type that it is read as in the end. Fails if an upcaster leads nowhere.
    pub(super) fn readable(&self) -> Result<Vec<(Contract, Registered)>, Error> {
        let find = |contract: &Contract| {
            let registered = self.target(contract).ok_or_else(|| {
                let text = format!(
                    "an upcaster of `{contract}` leads to a version that is not registered: register its type, or another upcaster"
                );
                Error::new(Kind::Invalid, text)
            })?;
            Ok((contract.clone(), registered))
        };
        self.entries.keys().map(find).collect()
    }

    fn target(&self, contract: &Contract) -> Option<Registered> {
        let mut contract = contract.clone();
        // Ends: versions only grow, and the registry is finite.
        loop {
            match self.entries.get(&contract)? {
                Entry::Type(registered) => return Some(*registered),
                Entry::Upcast(_) => contract = contract.next()?,
            }
        }
    }

    /// Reads a stored command, through the upcasters of all versions between.
    pub(super) fn read(&self, contract: &Contract, payload: &[u8]) -> Result<AnyCommand, Failure> {
        let missing =
            |contract: &Contract| Failure::retry(format!("contract `{contract}` is not registered"));
        if let Some(Entry::Type(registered)) = self.entries.get(contract) {
            return (registered.from_bytes)(payload).map_err(|error| unread(&error));
        }
        let mut value = serde_json::from_slice(payload).map_err(|error| unread(&error))?;
        let mut contract = contract.clone();
        loop {
            match self.entries.get(&contract).ok_or_else(|| missing(&contract))? {
                Entry::Type(registered) => {
                    return (registered.from_value)(value).map_err(|error| unread(&error));
                }
                Entry::Upcast(step) => {
                    value = step(value)?;
                    contract = contract.next().ok_or_else(|| missing(&contract))?;
                }
            }
        }
    }
}

/// An unreadable command takes the same way as one that fails (CMD-16): a newer version of the program may read it.
fn unread(error: &serde_json::Error) -> Failure {
    Failure::retry(unreadable(error))
}
