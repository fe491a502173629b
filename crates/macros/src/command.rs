//! `derive(Command)`: parses the attributes, reports errors in them, and generates the implementations.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::meta::ParseNestedMeta;
use syn::spanned::Spanned;
use syn::{Attribute, Data, DeriveInput, Error, LitInt, LitStr, Member, Result, Type};

/// The arguments of `#[command(…)]` on the type.
#[derive(Default)]
struct Settings {
    name: Option<LitStr>,
    version: Option<LitInt>,
    output: Option<Type>,
}

impl Settings {
    fn read(attributes: &[Attribute]) -> Result<Self> {
        let mut settings = Self::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("command")) {
            attribute.parse_nested_meta(|meta| settings.take(&meta))?;
        }
        Ok(settings)
    }

    fn take(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        let duplicate = if meta.path.is_ident("name") {
            self.name.replace(meta.value()?.parse()?).is_some()
        } else if meta.path.is_ident("version") {
            self.version.replace(meta.value()?.parse()?).is_some()
        } else if meta.path.is_ident("output") {
            self.output.replace(meta.value()?.parse()?).is_some()
        } else {
            return Err(meta.error("unknown argument: use `name = \"…\"`, `version = 1` or `output = Type`"));
        };
        if duplicate { Err(meta.error("duplicate argument: set it once")) } else { Ok(()) }
    }

    /// The name and version, if the command has a contract.
    fn contract(&self) -> Result<Option<(&LitStr, u32)>> {
        let (name, version) = match (&self.name, &self.version) {
            (None, None) => return Ok(None),
            (Some(name), Some(version)) => (name, version),
            (Some(name), None) => {
                return Err(Error::new(name.span(), "a contract needs a version: add `version = 1`"));
            }
            (None, Some(version)) => {
                return Err(Error::new(
                    version.span(),
                    "a contract needs a name, which must never change: add `name = \"…\"`",
                ));
            }
        };
        if let Some(output) = &self.output {
            let text = "a command with a result cannot be scheduled, so it has no contract: remove `name` and `version`, or `output`";
            return Err(Error::new(output.span(), text));
        }
        if name.value().trim().is_empty() {
            return Err(Error::new(name.span(), "the name of a contract must not be blank"));
        }
        let number: u32 = version.base10_parse()?;
        if number == 0 {
            return Err(Error::new(
                version.span(),
                "the version of a contract must be greater than zero: start with 1",
            ));
        }
        Ok(Some((name, number)))
    }
}

/// The field that is marked as the idempotency key.
fn key_field(data: &Data) -> Result<Option<(Member, Span)>> {
    let fields = match data {
        Data::Struct(data) => data.fields.iter().collect(),
        Data::Enum(data) => data.variants.iter().flat_map(|variant| &variant.fields).collect(),
        Data::Union(data) => data.fields.named.iter().collect::<Vec<_>>(),
    };
    let mut found = None;
    for (index, field) in fields.into_iter().enumerate() {
        for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("command")) {
            attribute.parse_nested_meta(|meta| {
                if !meta.path.is_ident("idempotency_key") {
                    return Err(meta.error("unknown argument: a field only supports `idempotency_key`"));
                }
                if !matches!(data, Data::Struct(_)) {
                    return Err(
                        meta.error("only a field of a struct can be the key: implement `Command` by hand")
                    );
                }
                if found.is_some() {
                    return Err(meta.error(
                        "only one field can be the key: implement `Command` by hand to combine several",
                    ));
                }
                let member = field.ident.clone().map_or_else(|| Member::from(index), Member::from);
                found = Some((member, field.ty.span()));
                Ok(())
            })?;
        }
    }
    Ok(found)
}

pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let settings = Settings::read(&input.attrs)?;
    let contract = settings.contract()?;
    let (ident, generics) = (&input.ident, &input.generics);
    if let (Some((name, _)), Some(parameter)) = (contract, generics.params.first()) {
        let text = "each concrete type of a generic command needs its own contract: remove the name, and pass each type to `Contracts::register`";
        let mut error = Error::new(parameter.span(), text);
        error.combine(Error::new(name.span(), "this name would apply to all of them"));
        return Err(error);
    }
    let (impl_generics, type_generics, bounds) = generics.split_for_impl();
    let output = settings.output.as_ref().map_or_else(|| quote!(()), |output| quote!(#output));
    let key = key_field(&input.data)?.map(|(member, span)| {
        let text = quote_spanned!(span=> ::std::string::ToString::to_string(&self.#member));
        quote! {
            fn idempotency_key(&self) -> ::core::option::Option<::std::string::String> {
                ::core::option::Option::Some(#text)
            }
        }
    });
    let contract = contract.map(|(name, version)| {
        quote! {
            #[automatically_derived]
            impl ::oncebox::commands::Contracted for #ident {
                const NAME: &'static str = #name;
                const VERSION: u32 = #version;
            }
        }
    });
    Ok(quote! {
        #[automatically_derived]
        impl #impl_generics ::oncebox::commands::Command for #ident #type_generics #bounds {
            type Output = #output;
            #key
        }
        #contract
    })
}

#[cfg(test)]
mod tests {
    use super::expand;

    fn expanded(code: &str) -> Result<String, String> {
        let input = syn::parse_str(code).unwrap();
        expand(&input).map(|tokens| tokens.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn the_attributes_determine_the_implementation() {
        let plain = expanded("struct A;").unwrap();
        assert!(plain.contains("type Output = () ;") && !plain.contains("Contracted"), "{plain}");
        let named =
            expanded(r#"#[command(name = "a.b", version = 3)] struct A(#[command(idempotency_key)] u64);"#);
        let named = named.unwrap();
        for part in ["NAME : & 'static str = \"a.b\"", "VERSION : u32 = 3u32", "to_string (& self . 0)"] {
            assert!(named.contains(part), "{part} in {named}");
        }
        let generic = expanded("#[command(output = Vec<T>)] struct A<T: Send>(T);").unwrap();
        assert!(
            generic.contains("impl < T : Send >") && generic.contains("type Output = Vec < T > ;"),
            "{generic}"
        );
    }

    #[test]
    fn errors_in_attributes_are_reported() {
        for (code, text) in [
            (r#"#[command(name = "a")] struct A;"#, "a contract needs a version: add `version = 1`"),
            ("#[command(version = 1)] struct A;", "a contract needs a name"),
            (r#"#[command(name = " ", version = 1)] struct A;"#, "must not be blank"),
            (r#"#[command(name = "a", version = 0)] struct A;"#, "greater than zero: start with 1"),
            (r#"#[command(name = "a", version = 4294967296)] struct A;"#, "number too large"),
            (r#"#[command(name = "a", version = "1")] struct A;"#, "expected integer literal"),
            (r#"#[command(name = "a", name = "b", version = 1)] struct A;"#, "duplicate argument"),
            (
                r#"#[command(name = "a", version = 1, output = u8)] struct A;"#,
                "a command with a result cannot be scheduled",
            ),
            (
                r#"#[command(title = "a")] struct A;"#,
                "unknown argument: use `name = \"…\"`, `version = 1` or `output = Type`",
            ),
            (
                r#"#[command(name = "a", version = 1)] struct A<T>(T);"#,
                "each concrete type of a generic command",
            ),
            (
                "struct A { #[command(key)] a: u8 }",
                "unknown argument: a field only supports `idempotency_key`",
            ),
            ("enum A { B { #[command(idempotency_key)] a: u8 } }", "only a field of a struct can be the key"),
            (
                "struct A { #[command(idempotency_key)] a: u8, #[command(idempotency_key)] b: u8 }",
                "only one field can be the key",
            ),
        ] {
            let error = expanded(code).unwrap_err();
            assert!(error.contains(text), "{code}: {error}");
        }
    }
}
