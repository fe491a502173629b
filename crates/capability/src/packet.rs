//! The v2 binary format of macaroons: the byte 2, then sections of fields. A field is its type, its length and its
//! bytes; types and lengths are varints. The type 0 ends a section, and an empty section ends the caveats.
//!
//! The parser accepts exactly what [`Packet::to_bytes`] writes. So a token has one binary form.

use crate::chain::{SIGNATURE_BYTES, Signature};
use crate::key::RootKey;
use crate::limits::{
    CAVEAT_BYTES_MAX, CAVEATS_COUNT_MAX, IDENTIFIER_BYTES_MAX, LOCATION_BYTES_MAX, TOKEN_BYTES_MAX,
};
use crate::token_error::{TokenError, check_length};

const VERSION: u8 = 2;
const END: usize = 0;
const LOCATION: usize = 1;
const IDENTIFIER: usize = 2;
const SIGNATURE: usize = 6;
/// Enough for any length below [`TOKEN_BYTES_MAX`].
const VARINT_BYTES_MAX: u32 = 3;

/// A macaroon without third-party caveats, whose fields are text. Knows nothing of what the texts mean.
#[derive(Clone)]
pub(crate) struct Packet {
    location: Option<String>,
    identifier: String,
    caveats: Vec<String>,
    signature: Signature,
}

impl Packet {
    /// A new macaroon without caveats.
    pub(crate) fn sign(root: &RootKey, location: Option<String>, identifier: String) -> Self {
        let signature = Signature::of_identifier(root, identifier.as_bytes());
        Self { location, identifier, caveats: Vec::new(), signature }
    }

    /// Adds a caveat, which needs no key.
    pub(crate) fn add(&mut self, caveat: String) -> Result<(), TokenError> {
        check_length("the caveat", caveat.len(), CAVEAT_BYTES_MAX)?;
        if self.caveats.len() == CAVEATS_COUNT_MAX {
            return Err(TokenError::TooManyCaveats);
        }
        self.signature = self.signature.of_caveat(caveat.as_bytes());
        self.caveats.push(caveat);
        Ok(())
    }

    /// Whether the signature is that of the root key.
    pub(crate) fn is_signed_by(&self, root: &RootKey) -> bool {
        let first = Signature::of_identifier(root, self.identifier.as_bytes());
        let expected = self.caveats.iter().fold(first, |link, caveat| link.of_caveat(caveat.as_bytes()));
        expected.is_same(&self.signature)
    }

    pub(crate) fn identifier(&self) -> &str {
        &self.identifier
    }

    pub(crate) fn caveats(&self) -> &[String] {
        &self.caveats
    }

    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, TokenError> {
        check_length("the token", bytes.len(), TOKEN_BYTES_MAX)?;
        let mut reader = Reader { rest: bytes };
        if reader.byte()? != VERSION {
            return Err(TokenError::Format("it has another version"));
        }
        let mut field = reader.varint()?;
        let mut location = None;
        if field == LOCATION {
            location = Some(reader.text("the location of the token", LOCATION_BYTES_MAX)?);
            field = reader.varint()?;
        }
        expect(field, IDENTIFIER)?;
        let identifier = reader.text("the identifier of the token", IDENTIFIER_BYTES_MAX)?;
        expect(reader.varint()?, END)?;
        let mut caveats = Vec::new();
        loop {
            match reader.varint()? {
                END => break,
                _ if caveats.len() == CAVEATS_COUNT_MAX => return Err(TokenError::TooManyCaveats),
                field => expect(field, IDENTIFIER)?,
            }
            caveats.push(reader.text("a caveat of the token", CAVEAT_BYTES_MAX)?);
            expect(reader.varint()?, END)?;
        }
        expect(reader.varint()?, SIGNATURE)?;
        let signature = reader.signature()?;
        if !reader.rest.is_empty() {
            return Err(TokenError::Format("there are bytes after its signature"));
        }
        Ok(Self { location, identifier, caveats, signature })
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        if let Some(location) = &self.location {
            put_field(&mut bytes, LOCATION, location.as_bytes());
        }
        put_field(&mut bytes, IDENTIFIER, self.identifier.as_bytes());
        put_varint(&mut bytes, END);
        for caveat in &self.caveats {
            put_field(&mut bytes, IDENTIFIER, caveat.as_bytes());
            put_varint(&mut bytes, END);
        }
        put_varint(&mut bytes, END);
        put_field(&mut bytes, SIGNATURE, self.signature.as_bytes());
        bytes
    }
}

fn expect(field: usize, expected: usize) -> Result<(), TokenError> {
    if field == expected {
        Ok(())
    } else {
        Err(TokenError::Format("a field is repeated, misplaced or unknown"))
    }
}

fn put_field(bytes: &mut Vec<u8>, field: usize, content: &[u8]) {
    put_varint(bytes, field);
    put_varint(bytes, content.len());
    bytes.extend_from_slice(content);
}

fn put_varint(bytes: &mut Vec<u8>, mut number: usize) {
    while number > 0x7F {
        bytes.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    bytes.push(number.to_le_bytes()[0]);
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Result<u8, TokenError> {
        Ok(self.bytes(1)?[0])
    }

    fn bytes(&mut self, length: usize) -> Result<&'a [u8], TokenError> {
        let (bytes, rest) =
            self.rest.split_at_checked(length).ok_or(TokenError::Format("it ends too early"))?;
        self.rest = rest;
        Ok(bytes)
    }

    /// Reads a number in its shortest form.
    fn varint(&mut self) -> Result<usize, TokenError> {
        let mut number = 0;
        for index in 0..VARINT_BYTES_MAX {
            let byte = self.byte()?;
            number |= usize::from(byte & 0x7F) << (7 * index);
            if byte == 0 && index > 0 {
                return Err(TokenError::Format("a number is longer than necessary"));
            }
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(TokenError::Format("a number is too large"))
    }

    /// Reads a text without control characters, so that it can be shown anywhere.
    fn text(&mut self, part: &'static str, limit: usize) -> Result<String, TokenError> {
        let length = self.varint()?;
        check_length(part, length, limit)?;
        let text = str::from_utf8(self.bytes(length)?).ok().filter(|text| !text.contains(char::is_control));
        text.map(str::to_owned).ok_or(TokenError::Format("a field is not text without control characters"))
    }

    fn signature(&mut self) -> Result<Signature, TokenError> {
        let length = self.varint()?;
        let bytes = self.bytes(length)?;
        let bytes: [u8; SIGNATURE_BYTES] =
            bytes.try_into().map_err(|_| TokenError::Format("its signature does not have 32 bytes"))?;
        Ok(Signature::from_bytes(bytes))
    }
}

#[cfg(test)]
mod tests;
