use super::*;

fn entry(name: &str, value: Vec<u8>) -> Entry {
    Entry { key: Key::new("pods", "default", name), revision: 7, created: 3, value: value.into() }
}

fn backup() -> Backup {
    let tenant = |name: &str, entries| TenantBackup { name: name.to_owned(), export: Export { revision: 9, entries } };
    let large = (0..40).map(|i| entry(&i.to_string(), vec![i; 20_000])).collect();
    let first = vec![entry("a", b"{}".to_vec()), entry("empty", Vec::new())];
    Backup { tenants: vec![tenant("", first), tenant("large", large), tenant("none", Vec::new())] }
}

fn encode(backup: &Backup) -> Vec<u8> {
    backup.encode()
}

fn decode(bytes: Vec<u8>) -> Result<Backup, BackupError> {
    Backup::decode(&bytes.into())
}

#[test]
fn what_was_written_is_read() {
    let backup = backup();
    assert_eq!(decode(encode(&backup)).unwrap(), backup);
    let nothing = Backup { tenants: Vec::new() };
    assert_eq!(decode(encode(&nothing)).unwrap(), nothing);
}

#[test]
fn every_cut_is_recognised() {
    let small = Backup { tenants: backup().tenants[..1].to_vec() };
    let bytes = encode(&small);
    for length in 1..bytes.len() {
        assert_eq!(decode(bytes[..length].to_vec()), Err(BackupError::Truncated(length)));
    }
    assert_eq!(decode(Vec::new()), Err(BackupError::Foreign));
}

#[test]
fn every_changed_byte_is_recognised() {
    let small = Backup { tenants: backup().tenants[..1].to_vec() };
    let bytes = encode(&small);
    for position in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[position] ^= 0x20;
        assert!(decode(changed).is_err(), "byte {position}");
    }
    let mut longer = bytes;
    longer.push(b'x');
    assert_eq!(decode(longer), Err(BackupError::Damaged("something follows its end")));
}

#[test]
fn one_cluster_is_picked() {
    assert_eq!(backup().names(), ["large", "none"]);
    let one = backup().only("none");
    assert_eq!(one.tenants.iter().map(|t| t.name.as_str()).collect::<Vec<_>>(), ["", "none"]);
}

#[test]
fn other_files_and_versions_are_told() {
    assert_eq!(decode(b"apiVersion: v1\nkind: List\n".to_vec()), Err(BackupError::Foreign));
    let error = decode(b"vctl-backup 2\nwhatever".to_vec()).unwrap_err();
    assert_eq!(error, BackupError::Version("2".to_owned()));
    assert!(error.to_string().contains("newer"));
}
