//! Derives for the types that Oncebox stores.

mod command;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Makes a type a command, with the contract that it is stored under.
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
/// - `name` and `version` belong together: the name never changes, the version does when older payloads no longer fit. The type can
///   be given to `Contracts::add`. Without them the type is a command that has no contract, or gets one by `Contracts::register`.
/// - `output = Type` says what its handler gives back; such a command can be sent and not scheduled, so it has no name.
/// - `#[command(idempotency_key)]` on one field: its text is the command's own key.
#[proc_macro_derive(Command, attributes(command))]
pub fn derive_command(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    command::expand(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}
