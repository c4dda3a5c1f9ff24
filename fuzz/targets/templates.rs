//! Templates: the text of a manifest with parameters, rendered within its limits.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vctl_portal::fuzzing;

fuzz_target!(|data: &[u8]| {
    if let Ok(text) = std::str::from_utf8(data) {
        fuzzing::template(text);
    }
});
