//! Any bytes as the entries of a group: decoded, encoded again, and replayed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use oncebox_store_embedded::fuzzing;

fuzz_target!(|bytes: &[u8]| {
    fuzzing::decode(bytes);
    fuzzing::replay(bytes);
});
