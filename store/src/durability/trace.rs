//! Reads what `strace -f -y -xx` wrote: which bytes went where, and what was synced when.

use std::collections::HashMap;

/// A system call that matters to durability. Paths are as they were when the file was opened.
#[derive(Debug)]
pub(super) enum Call {
    Write {
        path: String,
        offset: Option<u64>,
        data: Vec<u8>,
    },
    Truncate {
        path: String,
        length: u64,
    },
    /// It has completed.
    Sync {
        path: String,
    },
    Rename {
        from: String,
        to: String,
    },
    Unlink {
        path: String,
    },
}

/// All calls, in order: writes when they begin, syncs when they have ended.
pub(super) fn read(trace: &str) -> Vec<Call> {
    let mut begun: HashMap<&str, String> = HashMap::new();
    let mut calls = Vec::new();
    for line in trace.lines() {
        let Some((pid, rest)) = line.split_once(' ') else { continue };
        let rest = rest.trim_start();
        if let Some(resumed) = rest.strip_prefix("<... ") {
            if let (Some(start), Some((_, end))) = (begun.remove(pid), resumed.split_once("resumed>")) {
                calls.extend(call(&format!("{start}{end}")));
            }
        } else if let Some(start) = rest.strip_suffix(" <unfinished ...>") {
            begun.insert(pid, start.to_owned());
        } else {
            calls.extend(call(rest));
        }
    }
    calls
}

fn call(line: &str) -> Option<Call> {
    let (name, rest) = line.split_once('(')?;
    let (arguments, result) = rest.rsplit_once(") = ").or_else(|| {
        // strace aligns the result.
        let (arguments, result) = rest.rsplit_once('=')?;
        Some((arguments.trim_end().strip_suffix(')')?, result.trim()))
    })?;
    let result = result.trim();
    if result.starts_with('-') {
        return None;
    }
    match name {
        "write" | "pwrite64" => {
            let path = descriptor(arguments)?;
            let (_, rest) = arguments.split_once('"')?;
            let (data, rest) = rest.split_once('"')?;
            let data = bytes(data)?;
            assert!(!rest.starts_with("..."), "strace cut the data");
            let offset = (name == "pwrite64").then(|| rest.rsplit_once(", ")?.1.parse().ok()).flatten();
            assert_eq!(data.len().to_string(), result, "a short write");
            Some(Call::Write { path, offset, data })
        }
        "ftruncate" => {
            let length = arguments.rsplit_once(", ")?.1.parse().ok()?;
            Some(Call::Truncate { path: descriptor(arguments)?, length })
        }
        "fsync" | "fdatasync" => Some(Call::Sync { path: descriptor(arguments)? }),
        "rename" => {
            let mut paths = arguments.split('"').skip(1).step_by(2).map(text);
            Some(Call::Rename { from: paths.next()??, to: paths.next()?? })
        }
        "unlink" => Some(Call::Unlink { path: text(arguments.split('"').nth(1)?)? }),
        _ => None,
    }
}

/// The path of `5</the/path>, ..`; with -xx it is in hexadecimal too.
fn descriptor(arguments: &str) -> Option<String> {
    let (_, rest) = arguments.split_once('<')?;
    let (path, _) = rest.split_once('>')?;
    text(path)
}

fn text(hex: &str) -> Option<String> {
    if hex.starts_with("\\x") { String::from_utf8(bytes(hex)?).ok() } else { Some(hex.to_owned()) }
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    hex.split("\\x").skip(1).map(|byte| u8::from_str_radix(byte, 16).ok()).collect()
}
