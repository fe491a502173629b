//! Decodes arbitrary bytes as the entries of a group, encodes them again, and replays them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use oncebox_store_embedded::fuzzing;

fuzz_target!(|bytes: &[u8]| {
    fuzzing::decode(bytes);
    fuzzing::replay(bytes);
});
