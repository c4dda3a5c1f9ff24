//! Informers of other languages: programs that say what they see in lines of JSON (tests/soak/clients).

use std::{
    collections::VecDeque,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread::JoinHandle,
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use vctl_tests::wait;

use crate::{
    record::{self, Cache, Item, Journal, Kind, Record},
    truth::Resource,
};

/// A program with an informer of each resource. Killed when dropped.
pub(crate) struct Program {
    name: &'static str,
    pub(crate) journals: [Journal; 2],
    child: Child,
    input: ChildStdin,
    reader: Option<JoinHandle<()>>,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    /// Dumps that nobody has taken yet, by resource: the cache, and what handlers would have kept.
    dumps: [VecDeque<(Cache, Cache)>; 2],
    /// What could not be understood.
    broken: Option<String>,
}

/// The directory of the clients, installed by `scripts/informers` when they are not there yet.
///
/// # Errors
/// They cannot be installed; it says what is missing.
pub(crate) fn clients() -> Result<std::path::PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/informers");
    let output = Command::new(script).output().context("running scripts/informers")?;
    if !output.status.success() {
        bail!("the clients of the soak cannot be had: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?.trim().into())
}

impl Program {
    /// Starts `command` with a kubeconfig. What it prints on standard error goes to a file in `scratch`.
    pub(crate) fn start(name: &'static str, mut command: Command, kubeconfig: &Path, scratch: &Path) -> Result<Self> {
        let errors = std::fs::File::create(scratch.join(format!("{name}.err")))?;
        command.env("KUBECONFIG", kubeconfig).env("HOME", scratch);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        let mut child = command.spawn().with_context(|| format!("starting the informers of {name}"))?;
        let input = child.stdin.take().context("standard input is piped")?;
        let output = BufReader::new(child.stdout.take().context("standard output is piped")?);
        let journals = Resource::ALL.map(|resource| Journal::new(name, resource, None));
        let shared = Arc::new(Mutex::new(Shared::default()));
        let (told, state) = (journals.clone(), shared.clone());
        let reader = std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let lock = || state.lock().unwrap_or_else(PoisonError::into_inner);
                match read(&told, &line) {
                    Ok(None) => {}
                    Ok(Some((resource, dump))) => lock().dumps[resource as usize].push_back(dump),
                    Err(e) => lock().broken = Some(format!("{e:#}: {line:.500}")),
                }
            }
        });
        Ok(Self { name, journals, child, input, reader: Some(reader), shared })
    }

    /// What the informers hold, and what their handlers would have kept, by resource.
    pub(crate) fn caches(&mut self) -> Result<[(Cache, Cache); 2]> {
        self.check()?;
        self.input.write_all(b"dump\n").with_context(|| format!("asking {}", self.name))?;
        wait::until(&format!("{} tells its caches", self.name), Duration::from_mins(1), || {
            let mut shared = self.shared.lock().map_err(|e| e.to_string())?;
            if shared.dumps.iter().any(VecDeque::is_empty) {
                return Err("nothing yet".to_owned());
            }
            Ok(Resource::ALL.map(|resource| shared.dumps[resource as usize].pop_front().unwrap_or_default()))
        })
    }

    /// It runs, and all it said was understood.
    pub(crate) fn check(&mut self) -> Result<()> {
        if let Some(broken) = self.shared.lock().unwrap_or_else(PoisonError::into_inner).broken.take() {
            bail!("{} says what is not understood: {broken}", self.name);
        }
        let ended = self.child.try_wait()?;
        ensure!(ended.is_none(), "{} ended with {ended:?}", self.name);
        Ok(())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if self.child.kill().and_then(|()| self.child.wait()).is_ok()
            && let Some(reader) = self.reader.take()
        {
            // It ends with the program's standard output.
            let _ = reader.join();
        }
    }
}

/// Takes a line: into its journal, or as a dump.
fn read(journals: &[Journal; 2], line: &str) -> Result<Option<(Resource, (Cache, Cache))>> {
    let mut line: Value = serde_json::from_str(line)?;
    let resource = line["resource"].as_str().unwrap_or_default();
    let resource = Resource::ALL.into_iter().find(|r| r.name() == resource).context("no resource")?;
    let journal = &journals[resource as usize];
    let record = match line["what"].as_str().unwrap_or_default() {
        "event" => {
            let kind = match line["type"].as_str().unwrap_or_default() {
                "ADDED" => Kind::Added,
                "MODIFIED" => Kind::Modified,
                "DELETED" => Kind::Deleted,
                other => bail!("an event of type {other:?}"),
            };
            let at = line["at"].as_i64().context("no time")?;
            Record::Event { kind, item: item(journal, &line["item"])?, at }
        }
        "list" => {
            let items = line["items"].as_array().context("no items")?;
            let items = items.iter().map(|i| item(journal, i)).collect::<Result<_>>()?;
            Record::List { version: Some(version(&line["version"])?), items }
        }
        "expired" => Record::Expired { at: record::now() },
        "error" => Record::Failed(line["text"].to_string()),
        "dump" => {
            let mut cache = |name: &str| -> Result<Cache> {
                let Value::Object(all) = line[name].take() else { bail!("no {name}") };
                all.into_iter().map(|(key, v)| Ok((key, version(&v)?))).collect()
            };
            return Ok(Some((resource, (cache("cache")?, cache("handled")?))));
        }
        other => bail!("a line of {other:?}"),
    };
    journal.push(record);
    Ok(None)
}

/// `["namespace/name", "resourceVersion", number]`; a number of -1 is none.
fn item(journal: &Journal, item: &Value) -> Result<Item> {
    let key = journal.key(item[0].as_str().context("no key")?);
    Ok(Item { key, version: version(&item[1])?, number: item[2].as_u64() })
}

fn version(text: &Value) -> Result<u64> {
    text.as_str().context("no resourceVersion")?.parse().with_context(|| format!("resourceVersion {text}"))
}
