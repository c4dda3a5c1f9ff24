//! `kubectl get --watch-only`: what a person or a dashboard looks on with. It is no informer: it starts somewhere, and ends with its
//! connection; a new one starts then.

use std::{
    io::BufReader,
    process::{Child, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use serde_json::{Deserializer, Value};
use vctl_tests::kubectl::Kubectl;

use crate::{
    load,
    record::{self, Item, Journal, Kind, Record},
    truth::Resource,
};

const PAUSE: Duration = Duration::from_millis(100);

/// One after the other. The one that runs is ended with the value.
pub(crate) struct KubectlWatch {
    pub(crate) journal: Journal,
    stop: Arc<AtomicBool>,
    child: Arc<std::sync::Mutex<Option<Child>>>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl KubectlWatch {
    pub(crate) fn start(k: Kubectl, minor: &str, resource: Resource) -> Self {
        let journal = Journal::new(&format!("kubectl {minor}"), resource, None);
        let (stop, child) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let thread = std::thread::spawn({
            let (journal, stop, child) = (journal.clone(), stop.clone(), Arc::clone(&child));
            move || {
                while !stop.load(Ordering::SeqCst) {
                    journal.push(Record::Started);
                    watch(&k, &journal, resource, &child)?;
                    // The server may be away.
                    std::thread::sleep(PAUSE);
                }
                Ok(())
            }
        });
        Self { journal, stop, child, thread: Some(thread) }
    }

    /// Ends it; fails when something it printed was not understood.
    pub(crate) fn end(&mut self) -> Result<()> {
        self.stop.store(true, Ordering::SeqCst);
        let Some(thread) = self.thread.take() else { return Ok(()) };
        // One may just be starting.
        while !thread.is_finished() {
            if let Some(child) = &mut *self.child.lock().map_err(|_| anyhow::anyhow!("kubectl's reader panicked"))? {
                child.kill()?;
            }
            std::thread::sleep(PAUSE);
        }
        thread.join().map_err(|_| anyhow::anyhow!("kubectl's reader panicked"))?
    }
}

impl Drop for KubectlWatch {
    fn drop(&mut self) {
        // After a failure, of which is told elsewhere.
        let _ = self.end();
    }
}

/// Until its connection ends.
fn watch(k: &Kubectl, journal: &Journal, resource: Resource, running: &std::sync::Mutex<Option<Child>>) -> Result<()> {
    let mut command =
        k.command(&["get", resource.name(), "-A", "--watch-only", "--output-watch-events", "--output=json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().context("starting kubectl")?;
    let output = child.stdout.take().context("standard output is piped")?;
    *running.lock().map_err(|_| anyhow::anyhow!("kubectl's owner panicked"))? = Some(child);
    for event in Deserializer::from_reader(BufReader::new(output)).into_iter::<Value>() {
        // Cut off in the middle when it is ended.
        let Ok(event) = event else { break };
        let at = record::now();
        let kind = match event["type"].as_str().unwrap_or_default() {
            "ADDED" => Kind::Added,
            "MODIFIED" => Kind::Modified,
            "DELETED" => Kind::Deleted,
            "ERROR" => continue,
            other => bail!("kubectl prints an event of type {other:?}: {event}"),
        };
        let text =
            |name: &str| event["object"]["metadata"][name].as_str().with_context(|| format!("no {name} in {event}"));
        let key = journal.key(&format!("{}/{}", text("namespace")?, text("name")?));
        let item = Item { key, version: text("resourceVersion")?.parse()?, number: load::number(&event["object"]) };
        journal.push(Record::Event { kind, item, at });
    }
    let child = running.lock().map_err(|_| anyhow::anyhow!("kubectl's owner panicked"))?.take();
    if let Some(mut child) = child {
        // It has closed its output, or says what nobody understands.
        child.kill()?;
        child.wait()?;
    }
    Ok(())
}
