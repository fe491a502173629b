//! The contract registry: the contract of each command type, and how stored commands of older versions are read.

use std::any::{Any, TypeId, type_name};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use oncebox_core::{Error, ErrorKind};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::contract::Contract;
use super::{Command, Contracted};
use crate::worker::{Failure, json_error_text};

/// A type-erased command; its handlers downcast it.
pub(super) type AnyCommand = Arc<dyn Any + Send + Sync>;

/// The contracts of an application's commands. Schedulers and processors need the same contracts; cloning copies the
/// registry.
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
/// A contract without a version does not compile:
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
    Type(CommandType),
    /// Converts a payload of this version to the next.
    Upcast(Upcaster),
}

/// A registered command type.
#[derive(Clone, Copy)]
pub(super) struct CommandType {
    pub(super) id: TypeId,
    pub(super) name: &'static str,
    from_bytes: fn(&[u8]) -> Result<AnyCommand, serde_json::Error>,
    from_value: fn(Value) -> Result<AnyCommand, serde_json::Error>,
}

type Upcaster = Arc<dyn Fn(Value) -> Result<Value, Failure> + Send + Sync>;

impl Contracts {
    /// Creates an empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers the contract of command type `C`: its commands are stored under this name and version.
    ///
    /// Registering the same triple again has no effect. Fails if the type has another contract or the contract another
    /// type. Each concrete type of a generic command needs its own contract.
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
            return Err(Error::new(ErrorKind::Invalid, text));
        }
        self.check_vacant(&contract)?;
        let command_type = CommandType {
            id,
            name,
            from_bytes: |bytes| Ok(Arc::new(serde_json::from_slice::<C>(bytes)?)),
            from_value: |value| Ok(Arc::new(serde_json::from_value::<C>(value)?)),
        };
        self.by_type.insert(id, contract.clone());
        self.entries.insert(contract, Entry::Type(command_type));
        Ok(self)
    }

    /// Registers a command type under the contract that it declares, for example with `#[derive(Command)]`.
    pub fn add<C>(self) -> Result<Self, Error>
    where
        C: Contracted + Serialize + DeserializeOwned,
    {
        self.register::<C>(C::NAME, C::VERSION)
    }

    /// Registers an upcaster for an older version of a contract. Commands stored under `version` are read as `Old` and
    /// converted to the payload of the next version: that version's type, or the input of its own upcaster. Upcasters
    /// run one version at a time until a version has a registered type.
    ///
    /// A failing upcaster counts as a failing handler: the command is retried, or dead-lettered by [`Failure::dead`].
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
        self.check_vacant(&contract)?;
        let step = move |value| {
            let old = serde_json::from_value(value).map_err(|error| unreadable_command(&error))?;
            serde_json::to_value(upcast(old)?)
                .map_err(|_| Failure::retry("the result of an upcaster cannot be serialized as JSON"))
        };
        self.entries.insert(contract, Entry::Upcast(Arc::new(step)));
        Ok(self)
    }

    fn check_vacant(&self, contract: &Contract) -> Result<(), Error> {
        let owner = match self.entries.get(contract) {
            None => return Ok(()),
            Some(Entry::Type(command_type)) => format!("for command `{}`", command_type.name),
            Some(Entry::Upcast(_)) => "with an upcaster".to_owned(),
        };
        let text = format!("contract `{contract}` is already registered {owner}: use the next version");
        Err(Error::new(ErrorKind::Invalid, text))
    }

    /// The contract of a command type. Fails if the type is not registered.
    pub(super) fn of<C: Command>(&self) -> Result<&Contract, Error> {
        self.by_type.get(&TypeId::of::<C>()).ok_or_else(|| {
            let name = type_name::<C>();
            let text = format!(
                "command `{name}` is not registered: register its contract with `Contracts::register`"
            );
            Error::new(ErrorKind::Invalid, text)
        })
    }

    /// Every readable contract, with the command type that its payloads become after upcasting. Fails if the version
    /// after an upcaster is not registered.
    pub(super) fn readable(&self) -> Result<Vec<(Contract, CommandType)>, Error> {
        let find = |contract: &Contract| {
            let command_type = self.resolve(contract).ok_or_else(|| {
                let text = format!(
                    "the upcaster of `{contract}` leads to a version that is not registered: register its type or another upcaster"
                );
                Error::new(ErrorKind::Invalid, text)
            })?;
            Ok((contract.clone(), command_type))
        };
        self.entries.keys().map(find).collect()
    }

    fn resolve(&self, contract: &Contract) -> Option<CommandType> {
        let mut contract = contract.clone();
        // The loop ends: each step goes to a higher version, and the registry is finite.
        loop {
            match self.entries.get(&contract)? {
                Entry::Type(command_type) => return Some(*command_type),
                Entry::Upcast(_) => contract = contract.next()?,
            }
        }
    }

    /// Deserializes a stored command, applying the upcaster of each version up to the registered type.
    pub(super) fn read(&self, contract: &Contract, payload: &[u8]) -> Result<AnyCommand, Failure> {
        let missing =
            |contract: &Contract| Failure::retry(format!("contract `{contract}` is not registered"));
        if let Some(Entry::Type(command_type)) = self.entries.get(contract) {
            return (command_type.from_bytes)(payload).map_err(|error| unreadable_command(&error));
        }
        let mut value = serde_json::from_slice(payload).map_err(|error| unreadable_command(&error))?;
        let mut contract = contract.clone();
        loop {
            match self.entries.get(&contract).ok_or_else(|| missing(&contract))? {
                Entry::Type(command_type) => {
                    return (command_type.from_value)(value).map_err(|error| unreadable_command(&error));
                }
                Entry::Upcast(step) => {
                    value = step(value)?;
                    contract = contract.next().ok_or_else(|| missing(&contract))?;
                }
            }
        }
    }
}

/// An unreadable command is retried like a failing one (CMD-16): a newer version of the program may be able to read it.
fn unreadable_command(error: &serde_json::Error) -> Failure {
    Failure::retry(json_error_text(error))
}
