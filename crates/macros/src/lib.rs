//! Derives for the types that Oncebox stores.

mod command;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Implements `Command` for a type, and the contract under which it is stored.
///
/// ```text
/// #[derive(Serialize, Deserialize, Command)]
/// #[command(name = "payments.commands.process-payment", version = 1)]
/// struct ProcessPayment {
///     #[command(idempotency_key)]
///     payment: String,
///     cents: u64,
/// }
/// ```
///
/// - `name` and `version` belong together: the name must never change, and the version changes when older payloads no
///   longer fit. Such a type can be passed to `Contracts::add`. Without them, the command has no contract unless
///   `Contracts::register` assigns one.
/// - `output = Type` is the result of its handler. Such a command can be sent but not scheduled, so it has no name.
/// - `#[command(idempotency_key)]` marks the field whose text is the idempotency key of the command.
#[proc_macro_derive(Command, attributes(command))]
pub fn derive_command(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    command::expand(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}
