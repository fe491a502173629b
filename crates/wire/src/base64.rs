//! Base64 strings in JSON.

use std::fmt;
use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::PAD;
use bytes::Bytes;
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};

/// The standard alphabet, padded; with vector instructions on the platforms that the crate supports.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
static STANDARD: LazyLock<base64::engine::Simd> = LazyLock::new(|| base64::engine::Simd::standard(PAD));
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
static STANDARD: LazyLock<base64::engine::GeneralPurpose> =
    LazyLock::new(|| base64::engine::GeneralPurpose::new(&base64::alphabet::STANDARD, PAD));

/// Bytes that JSON carries as base64: the standard alphabet, padded. Their content stays out of `Debug` output.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Base64(pub Bytes);

impl fmt::Debug for Base64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl<T: Into<Bytes>> From<T> for Base64 {
    fn from(bytes: T) -> Self {
        Self(bytes.into())
    }
}

impl Base64 {
    /// Appends bytes as base64.
    pub fn append(text: &mut Vec<u8>, bytes: &[u8]) {
        let start = text.len();
        text.resize(start + bytes.len().div_ceil(3) * 4, 0);
        STANDARD
            .encode_slice(bytes, &mut text[start..])
            .expect("the buffer has four characters per three bytes");
    }

    /// Decodes into a buffer of exactly the right size, because the bytes may stay in memory for long.
    fn decode(text: &[u8]) -> Option<Self> {
        let padding = text.iter().copied().rev().take(2).take_while(|digit| *digit == b'=').count();
        let mut bytes = vec![0; (text.len() / 4 * 3).saturating_sub(padding)];
        let decoded = STANDARD.decode_slice(text, &mut bytes).ok()?;
        (decoded == bytes.len()).then(|| bytes.into())
    }
}

impl Serialize for Base64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = Base64;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a base64 string")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Base64, E> {
                self.visit_bytes(text.as_bytes())
            }

            fn visit_bytes<E: Error>(self, text: &[u8]) -> Result<Base64, E> {
                Base64::decode(text).ok_or_else(|| E::custom("is not base64 (standard alphabet, padded)"))
            }
        }

        // As bytes, to skip the check for UTF-8.
        deserializer.deserialize_bytes(Text)
    }
}

#[cfg(feature = "openapi")]
mod schema {
    use utoipa::openapi::schema::{Object, ObjectBuilder, SchemaType, Type};
    use utoipa::openapi::{RefOr, Schema};
    use utoipa::{PartialSchema, ToSchema};

    use super::Base64;

    /// The last character before the padding has no unused bits set, so that each content has one encoding.
    const PATTERN: &str = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$";

    impl PartialSchema for Base64 {
        fn schema() -> RefOr<Schema> {
            let object: Object = ObjectBuilder::new()
                .schema_type(SchemaType::new(Type::String))
                .content_encoding("base64")
                .pattern(Some(PATTERN))
                .description(Some("Base64 string: standard alphabet, padded."))
                .build();
            RefOr::T(Schema::Object(object))
        }
    }

    impl ToSchema for Base64 {}
}

#[cfg(test)]
mod tests {
    use super::Base64;

    #[test]
    fn bytes_survive_json_and_stay_out_of_debug() {
        let bytes = Base64::from(vec![0, 255, 128, 7]);
        let json = serde_json::to_string(&bytes).unwrap();
        assert_eq!(json, r#""AP+ABw==""#);
        assert_eq!(serde_json::from_str::<Base64>(&json).unwrap(), bytes);
        assert_eq!(format!("{bytes:?}"), "4 bytes");
        let error = serde_json::from_str::<Base64>(r#""A P""#).unwrap_err().to_string();
        assert!(error.starts_with("is not base64"), "{error}");
        serde_json::from_str::<Base64>(r#""AB==""#).unwrap_err();
    }

    #[test]
    fn escapes_of_json_strings_are_decoded() {
        let escaped = serde_json::from_str::<Base64>(r#""\u0041P\u002bABw\u003d=""#).unwrap();
        assert_eq!(escaped, Base64::from(vec![0, 255, 128, 7]));
        for nonsense in
            [&b"\"\xFF\xFF\xFF\xFF\""[..], b"\"\\ud800AAA\"", b"[65,65,65,65]", b"7", b"null", b"{}"]
        {
            serde_json::from_slice::<Base64>(nonsense).unwrap_err();
        }
    }

    #[test]
    fn bytes_of_any_length_survive_without_excess_capacity() {
        let all: Vec<u8> = (0..=255).cycle().take(300).collect();
        for length in 0..all.len() {
            let mut text = b"\"".to_vec();
            Base64::append(&mut text, &all[..length]);
            text.push(b'"');
            let Base64(bytes) = serde_json::from_slice(&text).unwrap();
            assert_eq!(bytes, all[..length]);
            assert_eq!(Vec::from(bytes).capacity(), length);
        }
    }

    #[test]
    fn invalid_or_unpadded_base64_is_rejected() {
        let long = "AAAA".repeat(40);
        for tail in [
            "A", "AA", "AAA", "=", "==", "A=", "A==", "A===", "====", "AA=", "AAA==", "AA==AAAA", "AAAA\\n",
            "AA-_",
        ] {
            for text in [tail.to_owned(), format!("{long}{tail}"), format!("{tail}{long}")] {
                serde_json::from_str::<Base64>(&format!("\"{text}\"")).unwrap_err();
            }
        }
    }
}
