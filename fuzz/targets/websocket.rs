//! Websocket sessions of exec, and SPDY inside websockets.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vctl_fuzz::block_on;
use vctl_vcluster::streaming::fuzzing;

fuzz_target!(|data: &[u8]| {
    let (mode, data) = data.split_first().unwrap_or((&0, data));
    match mode % 3 {
        0 => block_on(fuzzing::websocket_exec(data)),
        1 => block_on(fuzzing::websocket_messages(data)),
        _ => block_on(fuzzing::websocket_tunnel(data)),
    }
});
