//! Protobuf descriptors, from the byte strings that rust-protobuf puts into generated modules.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, Result, bail};
use prost::Message as _;
use prost_types::{DescriptorProto, FileDescriptorProto};

/// Messages by short name (`core.v1.Pod`).
pub(crate) type Messages = BTreeMap<String, DescriptorProto>;

/// The last three parts of a dotted name: group, version, kind.
pub(crate) fn short(name: &str) -> String {
    let parts: Vec<&str> = name.split('.').filter(|p| !p.is_empty()).collect();
    parts[parts.len().saturating_sub(3)..].join(".")
}

/// Reads all modules below a directory.
pub(crate) fn read(directory: &Path) -> Result<Messages> {
    let mut messages = Messages::new();
    visit(directory, &mut messages)?;
    if messages.len() < 500 {
        bail!("{} has only {} messages: the crate's layout has changed", directory.display(), messages.len());
    }
    Ok(messages)
}

fn visit(directory: &Path, messages: &mut Messages) -> Result<()> {
    for entry in fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            visit(&path, messages)?;
        } else if let Some(bytes) = literal(&fs::read_to_string(&path)?)? {
            let file = FileDescriptorProto::decode(&*bytes).with_context(|| path.display().to_string())?;
            let package = file.package().to_owned();
            for message in file.message_type {
                messages.insert(short(&format!("{package}.{}", message.name())), message);
            }
        }
    }
    Ok(())
}

/// The bytes of the descriptor's literal, undoing Rust's escapes.
fn literal(source: &str) -> Result<Option<Vec<u8>>> {
    const START: &str = "file_descriptor_proto_data: &'static [u8] = b\"";
    let Some(at) = source.find(START) else { return Ok(None) };
    let mut bytes = Vec::new();
    let mut rest = source[at + START.len()..].bytes().peekable();
    while let Some(byte) = rest.next() {
        if byte == b'"' {
            return Ok(Some(bytes));
        }
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next().context("escape at the end")? {
            b'n' => bytes.push(b'\n'),
            b'r' => bytes.push(b'\r'),
            b't' => bytes.push(b'\t'),
            b'0' => bytes.push(0),
            b'x' => {
                let digits: String = [rest.next(), rest.next()].into_iter().flatten().map(char::from).collect();
                bytes.push(u8::from_str_radix(&digits, 16).context("\\x")?);
            }
            b'\n' => while rest.next_if(u8::is_ascii_whitespace).is_some() {},
            other => bytes.push(other),
        }
    }
    bail!("a descriptor's literal does not end")
}
