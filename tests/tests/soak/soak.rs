//! Everything that runs in a soak.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Result, ensure};
use kube_runtime::watcher::Config;
use tokio::runtime::{Builder, Runtime};
use vctl_tests::platform::{Platform, Workers};

use crate::{
    commands::Outage,
    cut::Way,
    kubectl_watch::KubectlWatch,
    load::{Load, NAMESPACES},
    program::{self, Program},
    record::Journal,
    rust_client::{self, Informer},
    truth::{Lane, Resource},
};

/// Most writes a second.
const RATE: u32 = 500;

const DEFINITION: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.soak.example.com}
spec:
  group: soak.example.com
  scope: Namespaced
  names: {plural: gadgets, singular: gadget, kind: Gadget}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              properties:
                number: {type: integer}
                payload: {type: string}
";

/// Everything that the faults are done to.
pub(crate) struct Soak<'a> {
    pub(crate) platform: Platform,
    pub(crate) runtime: Runtime,
    pub(crate) way: Way,
    pub(crate) load: Load,
    pub(crate) informers: Vec<Informer>,
    pub(crate) programs: Vec<Program>,
    pub(crate) watches: Vec<KubectlWatch>,
    pub(crate) outage: &'a Outage,
    /// When delivery was disturbed, in microseconds of the Unix epoch.
    pub(crate) disturbed: Vec<(i64, i64)>,
}

/// A platform with an environment, the load on it and all informers; the kubeconfig that cannot be cut.
pub(crate) fn start(outage: &Outage) -> Result<(Soak<'_>, PathBuf)> {
    let clients = program::clients()?;
    let platform = Platform::start(Workers::Simulated)?;
    platform.create("soak", "blank", &[])?;
    let k = platform.kubectl("1.33", "soak")?;
    for namespace in NAMESPACES {
        k.ok(&["create", "namespace", namespace])?;
    }
    k.apply(DEFINITION)?;
    k.ok(&["wait", "--for=condition=Established", "customresourcedefinition/gadgets.soak.example.com"])?;

    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let scratch = platform.scratch().to_owned();
    let direct = platform.kubeconfig("soak")?;
    let way = Way::to(&runtime, platform.address())?;
    let cut = scratch.join("cut.kubeconfig");
    let through = std::fs::read_to_string(&direct)?.replace(platform.address(), &way.address().to_string());
    ensure!(through.contains(&way.address().to_string()), "the kubeconfig does not name {}", platform.address());
    std::fs::write(&cut, through)?;

    let load = Load::start(&runtime, &direct, RATE)?;
    let informers = rust_informers(&runtime, &direct, &cut)?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/soak/clients");
    // Node.js looks for packages beside the script.
    let beside = scratch.join("node");
    std::fs::create_dir(&beside)?;
    std::fs::copy(source.join("informer.mjs"), beside.join("informer.mjs"))?;
    std::os::unix::fs::symlink(clients.join("node_modules"), beside.join("node_modules"))?;
    let mut node = Command::new("node");
    node.arg(beside.join("informer.mjs"));
    let mut python = Command::new(clients.join("python/bin/python"));
    python.arg(source.join("informer.py"));
    let programs =
        vec![Program::start("node", node, &cut, &scratch)?, Program::start("python", python, &cut, &scratch)?];
    let watches = vec![
        KubectlWatch::start(platform.kubectl("1.27", "soak")?, "1.27", Resource::ConfigMaps),
        KubectlWatch::start(platform.kubectl("1.37", "soak")?, "1.37", Resource::Gadgets),
    ];
    let disturbed = Vec::new();
    let soak = Soak { platform, runtime, way, load, informers, programs, watches, outage, disturbed };
    Ok((soak, direct))
}

/// Those of kube-rs: by lists in pages, by streaming lists, of one value of a label; and one whose connections are never cut.
fn rust_informers(runtime: &Runtime, direct: &Path, cut: &Path) -> Result<Vec<Informer>> {
    let (direct, cut) = (rust_client::client(runtime, direct)?, rust_client::client(runtime, cut)?);
    let paged = Config::default().page_size(100);
    let mut all = Vec::new();
    for resource in Resource::ALL {
        let mut add = |client, name, lane, config| {
            all.push(Informer::start(runtime, client, name, resource, lane, config));
        };
        add(&direct, "kube-rs uncut", None, paged.clone());
        add(&cut, "kube-rs list+watch", None, paged.clone());
        add(&cut, "kube-rs streaming", None, Config::default().streaming_lists());
        add(&cut, "kube-rs lane=a", Some(Lane::A), paged.clone());
    }
    Ok(all)
}

impl Soak<'_> {
    /// Of all informers.
    pub(crate) fn journals(&self) -> Vec<Journal> {
        let informers = self.informers.iter().map(|i| i.journal.clone());
        informers.chain(self.programs.iter().flat_map(|p| p.journals.iter().cloned())).collect()
    }
}
