//! Renders templates within bounded memory.
//!
//! Plain ones (`scan`) are rendered at once. Others are rendered by a process of their own that has a limit of its memory and of its
//! time: one that would take more ends there, with a clear error, and the server goes on.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    path::PathBuf,
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::{io::AsyncWriteExt as _, process::Command, sync::Semaphore};
use vctl_api::rest::{Bindings, EnvironmentKind};
use vctl_machinery::schema;

use super::{
    Template, TemplateError, catalog,
    render::{self, Input},
    scan,
    source::{self, Files},
};

/// Memory that rendering a template may take, in bytes.
pub const MEMORY_LIMIT: u64 = 256 << 20;
/// Longest time on a processor, in seconds.
pub const PROCESSOR_LIMIT: u64 = 10;
/// Longest time altogether: the machine may be busy.
const TIME_LIMIT: Duration = Duration::from_mins(1);
/// Processes that render at a time.
const AT_A_TIME: usize = 2;
/// A template with more text than this is not plain, whatever it does.
const PLAIN_LIMIT: usize = 256 << 10;
/// Nor is one whose files may take longer to parse: see [`schema::yaml_work`].
const PLAIN_WORK: usize = schema::YAML_WORK / 10;
/// The same as [`PLAIN_LIMIT`] of all parameters.
const PLAIN_PARAMETERS: usize = 64 << 10;
/// Keeps the allocator of the other process from reserving 1 GiB before limits are set: that much would not be limited, and everything
/// else would fail, as it counts.
const NO_RESERVE: (&str, &str) = ("MIMALLOC_ARENA_RESERVE", "0");
/// Argument of the program that makes it one which renders.
pub const COMMAND: &str = "template-renderer";

/// What is asked of the other process.
#[derive(Debug, Serialize, Deserialize)]
struct Request {
    name: String,
    files: Files,
    environment: String,
    kind: EnvironmentKind,
    parameters: BTreeMap<String, Value>,
    bindings: Bindings,
    values: Option<String>,
}

type Rendered = Result<Vec<Value>, Vec<TemplateError>>;

/// Renders templates. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Renderer {
    program: Option<PathBuf>,
    seats: Arc<Semaphore>,
}

impl Renderer {
    /// With a program that answers, called with [`COMMAND`], as [`serve`] does. Without one, templates that are not plain are rendered
    /// by this process, whose memory is not bounded then.
    pub fn new(program: Option<PathBuf>) -> Self {
        Self { program, seats: Arc::new(Semaphore::new(AT_A_TIME)) }
    }

    /// As [`render::render_all`].
    ///
    /// # Errors
    /// The same, or that it takes too much.
    pub async fn render(&self, template: &Template, input: &Input<'_>) -> Rendered {
        match &self.program {
            Some(program) if !is_plain(template, input) => self.elsewhere(program, template, input).await,
            _ => render::render_all(template, input),
        }
    }

    async fn elsewhere(&self, program: &PathBuf, template: &Template, input: &Input<'_>) -> Rendered {
        let failed = |message: String| {
            vec![TemplateError::File {
                template: template.manifest.name.clone(),
                file: "manifests".to_owned(),
                message,
            }]
        };
        let request = Request {
            name: template.manifest.name.clone(),
            files: template.source(),
            environment: input.environment.to_owned(),
            kind: input.kind,
            parameters: input.parameters.clone(),
            bindings: input.bindings.clone(),
            values: input.values.map(str::to_owned),
        };
        let request = serde_json::to_vec(&request).map_err(|e| failed(e.to_string()))?;
        // Nobody closes the semaphore.
        let _seat = self.seats.acquire().await.ok();
        let cannot = |e: std::io::Error| failed(format!("cannot be rendered: {} does not run: {e}", program.display()));
        let mut child = Command::new(program)
            .arg(COMMAND)
            .env_clear()
            .env(NO_RESERVE.0, NO_RESERVE.1)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(cannot)?;
        let stdin = child.stdin.take();
        let asked = async {
            let write = async {
                if let Some(mut stdin) = stdin {
                    // It may end before it has read everything: its status says why.
                    let _ = stdin.write_all(&request).await;
                }
            };
            tokio::join!(write, child.wait_with_output()).1
        };
        let output = match tokio::time::timeout(TIME_LIMIT, asked).await {
            Ok(output) => output.map_err(cannot)?,
            Err(_) => return Err(failed(format!("takes longer than {} s to render", TIME_LIMIT.as_secs()))),
        };
        if !output.status.success() {
            return Err(failed(match signal(output.status) {
                Some(SIGXCPU | SIGKILL) => format!("takes more than {PROCESSOR_LIMIT} s of a processor to render"),
                Some(SIGSEGV) => "nests too deeply to be rendered".to_owned(),
                Some(SIGABRT) => format!(
                    "takes more than {} MiB of memory to render: does a text or list grow in a loop, or is one repeated?",
                    MEMORY_LIMIT >> 20
                ),
                _ => format!("cannot be rendered: {} ended with {}", program.display(), output.status),
            }));
        }
        serde_json::from_slice(&output.stdout)
            .map_err(|e| failed(format!("was rendered to what cannot be read: {e}")))?
    }
}

/// The signal that ended a process, where there are signals.
#[cfg(unix)]
fn signal(status: ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}

#[cfg(not(unix))]
fn signal(_: ExitStatus) -> Option<i32> {
    None
}

const SIGABRT: i32 = 6;
const SIGKILL: i32 = 9;
const SIGSEGV: i32 = 11;
const SIGXCPU: i32 = 24;

/// Whether rendering takes little memory, and what is rendered is read in little time.
fn is_plain(template: &Template, input: &Input<'_>) -> bool {
    let rendered = || template.files.iter().filter(|(file, _)| source::is_rendered(file));
    let text: usize = rendered().map(|(_, text)| text.len()).sum();
    let parameters: usize = input.parameters.iter().map(|(name, value)| name.len() + render::size(value)).sum();
    let quick = |text: &str| schema::yaml_work(text.as_bytes()) <= PLAIN_WORK;
    text <= PLAIN_LIMIT
        && parameters <= PLAIN_PARAMETERS
        && rendered().all(|(_, text)| quick(text) && scan::scan(text).plain)
}

/// What the other process does: reads one request, renders, writes the answer. It has set its limits before.
///
/// # Errors
/// When it cannot read or write.
pub fn serve(mut input: impl Read, mut output: impl Write) -> std::io::Result<()> {
    let mut request = Vec::new();
    input.read_to_end(&mut request)?;
    let Request { name, files, environment, kind, parameters, bindings, values } = serde_json::from_slice(&request)?;
    let rendered: Rendered = match catalog::read(&name, files) {
        Ok(template) => {
            let values = values.as_deref();
            let input = Input { environment: &environment, kind, parameters: &parameters, bindings: &bindings, values };
            render::render_all(&template, &input)
        }
        Err(error) => Err(vec![error]),
    };
    serde_json::to_writer(&mut output, &rendered)?;
    output.flush()
}
