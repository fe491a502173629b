//! All limits of tokens, caveats and keys, with the unit last.

/// Maximum size of a token, in binary form.
pub const TOKEN_BYTES_MAX: usize = 16 * 1024;
/// Maximum number of caveats of a token.
pub const CAVEATS_COUNT_MAX: usize = 32;
/// Maximum length of the text of a caveat.
pub const CAVEAT_BYTES_MAX: usize = 256;
/// Maximum length of the location, which is not signed and means nothing.
pub const LOCATION_BYTES_MAX: usize = 256;
/// Maximum length of an identifier: version, key id, nonce and two colons.
pub const IDENTIFIER_BYTES_MAX: usize = 1 + KEY_ID_BYTES_MAX + 32 + 2;
/// Maximum length of a key id.
pub const KEY_ID_BYTES_MAX: usize = 32;
/// Minimum size of a root key.
pub const ROOT_KEY_BYTES_MIN: usize = 32;
/// Maximum size of a root key.
pub const ROOT_KEY_BYTES_MAX: usize = 64;
/// Maximum number of root keys of a keyring.
pub const KEYS_COUNT_MAX: usize = 64;
/// Maximum size of a key file.
pub const KEY_FILE_BYTES_MAX: usize = 64 * 1024;
/// Maximum length of the caveat `name`.
pub const NAME_CHARS_MAX: usize = 64;
/// Maximum tolerance for clocks that differ.
pub const SKEW_SECONDS_MAX: u64 = 120;
