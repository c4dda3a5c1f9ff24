//! One group commit as few scripts: every call to SQLite is a trip to its thread, so many rows go in one statement and many
//! statements in one call.

use std::{collections::HashMap, fmt::Write, sync::Arc};

use bytes::Bytes;
use sqlx::{AssertSqlSafe, Sqlite, query::Query, sqlite::SqliteArguments};

use crate::{
    Key, Revision, Tenant,
    engine::durable::{Change, Record, replaced},
    sqlite::schema::row_id,
};

/// Rows of one statement; a number is put together from these, so that few different statements have to be prepared.
const CHUNKS: [usize; 4] = [64, 16, 4, 1];

/// Rows of one script.
const SCRIPT_ROWS: usize = 256;

/// Marks a tenant as gone; its rows are swept.
const DELETE: &str = "UPDATE tenants SET deleted = 1, name = NULL WHERE vc = ?";

/// A value for a `?`.
enum Argument {
    Integer(i64),
    Text(Arc<str>),
    Blob(Option<Bytes>),
}

/// Statements that are run in one call, with their arguments.
#[derive(Default)]
pub(super) struct Script {
    sql: String,
    arguments: Vec<Argument>,
    rows: usize,
    /// It is likely to come again in the same form: worth keeping it prepared.
    recurs: bool,
}

impl Script {
    pub(super) fn query(self) -> Query<'static, Sqlite, SqliteArguments> {
        let mut query = sqlx::query(AssertSqlSafe(self.sql)).persistent(self.recurs);
        for argument in self.arguments {
            query = match argument {
                Argument::Integer(value) => query.bind(value),
                Argument::Text(value) => query.bind(value),
                Argument::Blob(value) => query.bind(value.map(Vec::from)),
            };
        }
        query
    }

    fn run(&mut self, sql: &str, arguments: impl IntoIterator<Item = Argument>) {
        self.sql.push_str(sql);
        self.sql.push(';');
        self.arguments.extend(arguments);
    }
}

/// The scripts that write the changes in one transaction.
pub(super) fn commit(changes: &[Change]) -> Vec<Script> {
    let mut scripts = Scripts::default();
    let mut rows: Vec<(Tenant, &Record)> = Vec::new();
    scripts.last.run("BEGIN IMMEDIATE", []);
    let mut recurs = true;
    for change in changes {
        match change {
            Change::Write { tenant, records } => rows.extend(records.iter().map(|r| (*tenant, r))),
            Change::Create { tenant, name, base, replaces, records } => {
                recurs = false;
                if let Some(replaced) = replaces {
                    scripts.last.run(DELETE, [Argument::Integer(replaced.0.into())]);
                }
                let arguments = [
                    Argument::Integer(tenant.0.into()),
                    Argument::Text(name.clone()),
                    Argument::Integer(*base as i64),
                    Argument::Integer(*base as i64),
                ];
                scripts.last.run("INSERT INTO tenants (vc, name, compacted, swept) VALUES (?, ?, ?, ?)", arguments);
                rows.extend(records.iter().map(|r| (*tenant, r)));
            }
            Change::Delete { tenant } => {
                recurs = false;
                scripts.last.run(DELETE, [Argument::Integer(tenant.0.into())]);
            }
            Change::Rewrite { values } => {
                recurs = false;
                for (tenant, revision, value) in values {
                    let arguments =
                        [Argument::Blob(Some(value.clone())), Argument::Integer(row_id(*tenant, *revision))];
                    scripts.last.run("UPDATE log SET value = ? WHERE id = ? AND value IS NOT NULL", arguments);
                    scripts.last.rows += 1;
                    scripts.cut();
                }
            }
            Change::UseKeys { ids } => {
                recurs = false;
                scripts.last.run("DELETE FROM encryption", []);
                for id in ids {
                    scripts.last.run("INSERT INTO encryption (key) VALUES (?)", [Argument::Text(id.as_str().into())]);
                }
            }
            Change::Compact { tenant, revision } => {
                recurs = false;
                let arguments = [Argument::Integer(*revision as i64), Argument::Integer(tenant.0.into())];
                scripts.last.run("UPDATE tenants SET compacted = max(compacted, ?) WHERE vc = ?", arguments);
            }
            Change::Tidy | Change::Barrier => {}
        }
    }
    let replaced = replaced(rows.iter().copied());
    for (tenant, revision) in &replaced {
        recurs = false;
        scripts.last.run("DELETE FROM log WHERE id = ?", [Argument::Integer(row_id(*tenant, *revision))]);
        scripts.last.rows += 1;
        scripts.cut();
    }
    if !replaced.is_empty() {
        rows.retain(|(tenant, record)| !replaced.contains(&(*tenant, record.event.revision)));
    }
    scripts.rows(
        "INSERT INTO log (id, kind, ns, name, created, prev, value) VALUES ",
        "(?,?,?,?,?,?,?)",
        &rows,
        log_row,
    );

    // Of a document that is written several times only the last state counts.
    let mut last: HashMap<(Tenant, &Key), Option<Revision>> = HashMap::with_capacity(rows.len());
    for (tenant, record) in &rows {
        let event = &record.event;
        last.insert((*tenant, &event.key), event.value.is_some().then_some(event.revision));
    }
    let mut kept = Vec::with_capacity(last.len());
    let mut gone = Vec::new();
    for ((tenant, key), revision) in last {
        match revision {
            Some(revision) => kept.push((tenant, key, revision)),
            None => gone.push((tenant, key)),
        }
    }
    // In the order of the index.
    kept.sort_unstable();
    recurs &= gone.is_empty() && kept.len() == rows.len() && rows.len() <= SCRIPT_ROWS / 2;
    scripts.rows("INSERT OR REPLACE INTO current (vc, kind, ns, name, rev) VALUES ", "(?,?,?,?,?)", &kept, current_row);
    for (tenant, key) in gone {
        scripts.last.run("DELETE FROM current WHERE vc = ? AND kind = ? AND ns = ? AND name = ?", place(tenant, key));
        scripts.last.rows += 1;
        scripts.cut();
    }
    scripts.last.run("COMMIT", []);
    scripts.last.recurs = recurs;
    scripts.done.push(scripts.last);
    scripts.done
}

#[derive(Default)]
struct Scripts {
    done: Vec<Script>,
    last: Script,
}

impl Scripts {
    /// Inserts rows, many at a time.
    fn rows<T>(&mut self, head: &str, row: &str, rows: &[T], arguments: fn(&T, &mut Vec<Argument>)) {
        let mut left = rows;
        for size in CHUNKS {
            while left.len() >= size {
                let (chunk, rest) = left.split_at(size);
                left = rest;
                self.last.sql.push_str(head);
                for i in 0..size {
                    // Writing to a string cannot fail.
                    let _ = write!(self.last.sql, "{}{row}", if i == 0 { "" } else { "," });
                }
                self.last.sql.push(';');
                for row in chunk {
                    arguments(row, &mut self.last.arguments);
                }
                self.last.rows += size;
                self.cut();
            }
        }
    }

    fn cut(&mut self) {
        if self.last.rows >= SCRIPT_ROWS {
            self.done.push(std::mem::take(&mut self.last));
        }
    }
}

fn log_row((tenant, record): &(Tenant, &Record), arguments: &mut Vec<Argument>) {
    let event = &record.event;
    arguments.extend([
        Argument::Integer(row_id(*tenant, event.revision)),
        Argument::Text(event.key.resource.clone()),
        Argument::Text(event.key.namespace.clone()),
        Argument::Text(event.key.name.clone()),
        Argument::Integer(record.created as i64),
        Argument::Integer(event.previous.as_ref().map_or(0, |(revision, _)| *revision as i64)),
        Argument::Blob(event.value.clone()),
    ]);
}

fn current_row((tenant, key, revision): &(Tenant, &Key, Revision), arguments: &mut Vec<Argument>) {
    arguments.extend(place(*tenant, key));
    arguments.push(Argument::Integer(*revision as i64));
}

fn place(tenant: Tenant, key: &Key) -> [Argument; 4] {
    [
        Argument::Integer(tenant.0.into()),
        Argument::Text(key.resource.clone()),
        Argument::Text(key.namespace.clone()),
        Argument::Text(key.name.clone()),
    ]
}
