//! SPDY sessions of exec and port-forward: frames, header blocks, what they ask for.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vctl_fuzz::block_on;
use vctl_vcluster::streaming::fuzzing;

fuzz_target!(|data: &[u8]| {
    let (mode, data) = data.split_first().unwrap_or((&0, data));
    match mode % 4 {
        0 => block_on(fuzzing::spdy(data)),
        1 => block_on(fuzzing::spdy_exec(data)),
        2 => block_on(fuzzing::spdy_port_forward(data)),
        _ => fuzzing::spdy_headers(data),
    }
});
