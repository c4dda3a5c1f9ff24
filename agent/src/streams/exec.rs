//! Exec and attach: a command in a container, or its main process, with terminal, input and exit code.

use std::{pin::Pin, sync::Arc};

use bollard::{
    container::LogOutput,
    exec::{CreateExecOptions, ResizeExecOptions, StartExecOptions, StartExecResults},
    query_parameters::{AttachContainerOptionsBuilder, ResizeContainerTTYOptionsBuilder},
};
use futures::{Stream, StreamExt as _};
use tokio::sync::mpsc;
use vctl_api::agent::{ExecRequest, Exit, Frame, frame::Frame as Kind};

use super::{
    Failure, Pipe, container, find,
    input::{self, Input},
};
use crate::{context::Context, pods::record::Phase, reconcile::Reconciler};

type Output = Pin<Box<dyn Stream<Item = Result<LogOutput, bollard::errors::Error>> + Send>>;

/// What is attached to: it can be resized, and ends with an exit code.
enum Session {
    Exec(String),
    Container(String),
}

impl Session {
    /// The session's own directory among the container's files; none when it is the container's main process.
    fn directory(&self) -> Option<&str> {
        match self {
            Self::Exec(id) => Some(id),
            Self::Container(_) => None,
        }
    }
}

pub(super) async fn run(
    ctx: &Arc<Context>,
    reconciler: &Reconciler,
    request: ExecRequest,
    pipe: Pipe,
) -> Result<(), Failure> {
    let target = request.target.clone().unwrap_or_default();
    let (_, view) = find(reconciler, &target)?;
    let record = container(&view, &target.container)?;
    if !matches!(record.phase, Phase::Running { .. }) {
        return Err(Failure(
            "BadRequest",
            format!("container {} in pod {} is not running", target.container, view.pod.name),
        ));
    }
    let files = if request.stdin {
        let seen = ctx.podman.inspect(&record.id).await.map_err(Failure::internal)?;
        seen.map(|container| input::directory(&container.oci_config))
    } else {
        None
    };
    let docker = ctx.podman.docker().map_err(Failure::internal)?;
    let (session, output, input) = if request.attach {
        let options = AttachContainerOptionsBuilder::default()
            .stream(true)
            .stdin(request.stdin)
            .stdout(request.stdout)
            .stderr(request.stderr)
            .build();
        let attached = docker.attach_container(&record.id, Some(options)).await.map_err(Failure::internal)?;
        (Session::Container(record.id), attached.output, attached.input)
    } else {
        let options = CreateExecOptions {
            cmd: Some(request.command.clone()),
            attach_stdin: Some(request.stdin),
            attach_stdout: Some(request.stdout),
            attach_stderr: Some(request.stderr && !request.tty),
            tty: Some(request.tty),
            env: request.tty.then(|| vec!["TERM=xterm".to_owned()]),
            ..CreateExecOptions::default()
        };
        let exec = docker.create_exec(&record.id, options).await.map_err(Failure::internal)?;
        let start = StartExecOptions { detach: false, tty: request.tty, output_capacity: None };
        match docker.start_exec(&exec.id, Some(start)).await.map_err(Failure::internal)? {
            StartExecResults::Attached { output, input } => (Session::Exec(exec.id), output, input),
            StartExecResults::Detached => return Err(Failure::internal("the command was started detached")),
        }
    };
    let mut input = match files {
        Some(files) => Input::open(&files, session.directory(), input),
        None => Input::Ended,
    };
    let discarded = input.discard_output();
    let Pipe { up, mut down } = pipe;
    let resizer = docker.clone();
    let feed = async {
        // An error here is the end of the client's connection.
        while let Ok(Some(frame)) = down.message().await {
            match frame.frame {
                Some(Kind::Data(data)) => input.write(&data.bytes).await,
                Some(Kind::CloseWrite(_)) => input.close().await,
                Some(Kind::Resize(size)) => resize(&resizer, &session, size.width, size.height).await,
                _ => {}
            }
        }
        // The client has gone; what still comes is for nobody, but the command is not killed, as in Kubernetes.
        input.close().await;
        std::future::pending::<()>().await;
    };
    let drained = tokio::select! {
        result = drain(&up, output, request.tty) => result,
        () = feed => Ok(()),
        () = discarded => Ok(()),
    };
    if let Err(why) = drained {
        tracing::debug!(error = why, "output of a session");
    }
    let code = exit_code(ctx, &docker, &session).await?;
    let message = if code == 0 {
        String::new()
    } else {
        format!("command terminated with non-zero exit code: exit status {code}")
    };
    Pipe::send(&up, Kind::Exit(Exit { code, message })).await;
    Ok(())
}

async fn drain(up: &mpsc::Sender<Frame>, mut output: Output, tty: bool) -> Result<(), String> {
    while let Some(part) = output.next().await {
        let (channel, bytes) = match part.map_err(|e| e.to_string())? {
            LogOutput::StdErr { message } if !tty => (2, message),
            LogOutput::StdOut { message } | LogOutput::StdErr { message } | LogOutput::Console { message } => {
                (1, message)
            }
            LogOutput::StdIn { .. } => continue,
        };
        if !Pipe::data(up, channel, bytes).await {
            return Ok(());
        }
    }
    Ok(())
}

async fn resize(docker: &bollard::Docker, session: &Session, width: u32, height: u32) {
    let (w, h) = (width.min(u32::from(u16::MAX)) as u16, height.min(u32::from(u16::MAX)) as u16);
    let done = match session {
        Session::Exec(id) => docker.resize_exec(id, ResizeExecOptions { height: h, width: w }).await,
        Session::Container(id) => {
            let options = ResizeContainerTTYOptionsBuilder::default().h(i32::from(h)).w(i32::from(w)).build();
            docker.resize_container_tty(id, options).await
        }
    };
    if let Err(e) = done {
        tracing::debug!(error = %e, "resizing a terminal");
    }
}

async fn exit_code(ctx: &Context, docker: &bollard::Docker, session: &Session) -> Result<i32, Failure> {
    match session {
        // Podman records the end of a command a moment after its output has ended.
        Session::Exec(id) => {
            for _ in 0..100 {
                let seen = docker.inspect_exec(id).await.map_err(Failure::internal)?;
                if let (Some(false), Some(code)) = (seen.running, seen.exit_code) {
                    return Ok(code as i32);
                }
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
            Err(Failure::internal("the command's exit code did not become known"))
        }
        Session::Container(id) => {
            let seen = ctx.podman.inspect(id).await.map_err(Failure::internal)?;
            Ok(seen.filter(|s| !s.state.running).map_or(0, |s| s.state.exit_code))
        }
    }
}
