//! The names of each environment. Pure.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    net::{IpAddr, Ipv4Addr},
};

use vctl_api::agent::{DnsRecord, ExpectedDns};

/// What is known of a name.
pub(super) enum Found<'a> {
    /// It exists, with these records.
    Records(Vec<&'a DnsRecord>),
    /// Only names below it exist: an answer without records, not NXDOMAIN.
    Parent,
    /// It does not exist.
    Nothing,
}

#[derive(Default)]
struct Zone {
    names: HashMap<String, BTreeSet<String>>,
    /// How many names are below this one.
    parents: HashMap<String, usize>,
    reverse: HashMap<IpAddr, BTreeMap<String, usize>>,
}

/// All names, by environment.
#[derive(Default)]
pub(super) struct Zones {
    records: HashMap<String, DnsRecord>,
    zones: HashMap<String, Zone>,
}

fn ancestors(name: &str) -> impl Iterator<Item = &str> {
    name.match_indices('.').map(|(i, _)| &name[i + 1..])
}

/// The address in a reverse name: `5.1.200.10.in-addr.arpa`.
pub(super) fn address_of(name: &str) -> Option<IpAddr> {
    let digits: Vec<u8> =
        name.strip_suffix(".in-addr.arpa")?.split('.').map(str::parse).collect::<Result<_, _>>().ok()?;
    let [d, c, b, a] = digits.try_into().ok()?;
    Some(IpAddr::V4(Ipv4Addr::new(a, b, c, d)))
}

impl Zones {
    pub(super) fn apply(&mut self, expected: ExpectedDns) {
        if expected.full {
            *self = Self::default();
        }
        for id in &expected.removed {
            self.remove(id);
        }
        for mut record in expected.upsert {
            record.name = record.name.trim_end_matches('.').to_ascii_lowercase();
            self.remove(&record.id.clone());
            self.add(record);
        }
    }

    fn add(&mut self, record: DnsRecord) {
        let zone = self.zones.entry(record.environment.clone()).or_default();
        zone.names.entry(record.name.clone()).or_default().insert(record.id.clone());
        for parent in ancestors(&record.name) {
            *zone.parents.entry(parent.to_owned()).or_default() += 1;
        }
        for ip in record.addresses.iter().filter_map(|a| a.parse().ok()) {
            *zone.reverse.entry(ip).or_default().entry(record.name.clone()).or_default() += 1;
        }
        self.records.insert(record.id.clone(), record);
    }

    fn remove(&mut self, id: &str) {
        let Some(record) = self.records.remove(id) else { return };
        let Some(zone) = self.zones.get_mut(&record.environment) else { return };
        if let Some(ids) = zone.names.get_mut(&record.name) {
            ids.remove(id);
            if ids.is_empty() {
                zone.names.remove(&record.name);
            }
        }
        for parent in ancestors(&record.name) {
            if let Some(count) = zone.parents.get_mut(parent) {
                *count -= 1;
                if *count == 0 {
                    zone.parents.remove(parent);
                }
            }
        }
        for ip in record.addresses.iter().filter_map(|a| a.parse::<IpAddr>().ok()) {
            if let Some(names) = zone.reverse.get_mut(&ip) {
                if let Some(count) = names.get_mut(&record.name) {
                    *count -= 1;
                    if *count == 0 {
                        names.remove(&record.name);
                    }
                }
                if names.is_empty() {
                    zone.reverse.remove(&ip);
                }
            }
        }
        if zone.names.is_empty() {
            self.zones.remove(&record.environment);
        }
    }

    pub(super) fn find(&self, environment: &str, name: &str) -> Found<'_> {
        let Some(zone) = self.zones.get(environment) else { return Found::Nothing };
        match zone.names.get(name) {
            Some(ids) => Found::Records(ids.iter().filter_map(|id| self.records.get(id)).collect()),
            None if zone.parents.contains_key(name) => Found::Parent,
            None => Found::Nothing,
        }
    }

    pub(super) fn names_of(&self, environment: &str, ip: IpAddr) -> impl Iterator<Item = &String> {
        self.zones.get(environment).and_then(|z| z.reverse.get(&ip)).into_iter().flat_map(BTreeMap::keys)
    }
}
