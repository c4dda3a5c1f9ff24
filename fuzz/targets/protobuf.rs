//! Bodies in protobuf: what is read is written again and comes back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vctl_fuzz::Bytes;
use vctl_machinery::{protobuf, schema};

fuzz_target!(|data: &[u8]| {
    let (mode, data) = data.split_first().unwrap_or((&0, data));
    let decoded = if mode & 1 == 0 {
        protobuf::decode(data).ok()
    } else {
        let mut bytes = Bytes(data);
        let (group, version, kind) = bytes.kind();
        let mut object = bytes.object((group, version, kind));
        schema::decode_kind(Default::default(), group, version, kind, &mut object)
            .is_ok()
            .then(|| protobuf::encode(&object).map(|body| protobuf::decode(&body).expect("what was written is read")))
            .flatten()
    };
    let Some(decoded) = decoded else { return };
    let Some(body) = protobuf::encode(&decoded) else { return };
    assert_eq!(protobuf::decode(&body).as_ref(), Ok(&decoded), "comes back the same");
    protobuf::watch_frame("ADDED", &decoded);
});
