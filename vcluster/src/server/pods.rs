//! Logs of pods, and sessions with them.

use axum::body::Body;
use http::{Request, Response, StatusCode};
use serde_json::Value;
use vctl_machinery::status::ApiError;

use super::{Context, respond};
use crate::{
    admission,
    document::meta,
    objects::Target,
    request::Query,
    streaming::{self, Session},
    streams::{ContainerTarget, ExecOptions, LogOptions},
};

/// What a session asks for, as webhooks see it.
fn options_object(session: &Session, container: &str) -> Value {
    match session {
        Session::PortForward => serde_json::json!({ "kind": "PodPortForwardOptions", "apiVersion": "v1" }),
        Session::Exec(options) => {
            let kind = if options.attach { "PodAttachOptions" } else { "PodExecOptions" };
            let mut object = serde_json::json!({ "kind": kind, "apiVersion": "v1", "container": container });
            for (field, set) in
                [("stdin", options.stdin), ("stdout", options.stdout), ("stderr", options.stderr), ("tty", options.tty)]
            {
                if set {
                    object[field] = true.into();
                }
            }
            if !options.command.is_empty() {
                object["command"] = options.command.clone().into();
            }
            object
        }
    }
}

async fn pod(context: &Context, target: &Target) -> Result<Value, ApiError> {
    context.call()?.get(&Target::new(target.descriptor.clone(), &target.namespace, &target.name)).await
}

fn names(pod: &Value) -> Vec<&str> {
    ["containers", "initContainers", "ephemeralContainers"]
        .iter()
        .filter_map(|f| pod["spec"][*f].as_array())
        .flatten()
        .filter_map(|c| c["name"].as_str())
        .collect()
}

/// The container asked for, or the only one, or the pod's default.
fn container(pod: &Value, asked: &str) -> Result<String, ApiError> {
    let name = meta(pod, "name");
    let all = names(pod);
    if !asked.is_empty() {
        return if all.contains(&asked) {
            Ok(asked.to_owned())
        } else {
            Err(ApiError::bad_request(format!("container {asked} is not valid for pod {name}")))
        };
    }
    let main: Vec<&str> =
        pod["spec"]["containers"].as_array().into_iter().flatten().filter_map(|c| c["name"].as_str()).collect();
    let default = pod.pointer("/metadata/annotations/kubectl.kubernetes.io~1default-container").and_then(Value::as_str);
    match (main.as_slice(), default) {
        ([one], _) => Ok((*one).to_owned()),
        (_, Some(default)) if main.contains(&default) => Ok(default.to_owned()),
        _ => {
            let list = |field: &str| {
                let names: Vec<&str> =
                    pod["spec"][field].as_array().into_iter().flatten().filter_map(|c| c["name"].as_str()).collect();
                names.join(" ")
            };
            let init = list("initContainers");
            let more =
                if init.is_empty() { String::new() } else { format!(" or one of the init containers: [{init}]") };
            Err(ApiError::bad_request(format!(
                "a container name must be specified for pod {name}, choose one of: [{}]{more}",
                main.join(" ")
            )))
        }
    }
}

/// Where a container is; an empty name for the pod itself.
pub(crate) fn place(context: &Context, pod: &Value, container: &str) -> Result<ContainerTarget, ApiError> {
    let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    if node.is_empty() {
        return Err(ApiError::bad_request(format!("pod {} does not have a host assigned", meta(pod, "name"))));
    }
    Ok(ContainerTarget {
        environment: context.plane.name.clone(),
        namespace: meta(pod, "namespace").to_owned(),
        pod: meta(pod, "name").to_owned(),
        uid: meta(pod, "uid").to_owned(),
        node: node.to_owned(),
        container: container.to_owned(),
    })
}

fn log_options(query: &Query) -> Result<LogOptions, ApiError> {
    let number = |name: &str| -> Result<Option<i64>, ApiError> {
        match query.get(name) {
            "" => Ok(None),
            text => text
                .parse::<i64>()
                .map(Some)
                .map_err(|_| ApiError::bad_request(format!("invalid {name} {text:?}: must be an integer"))),
        }
    };
    let since_time_ms = match query.get("sinceTime") {
        "" => None,
        text => Some(
            text.parse::<jiff::Timestamp>()
                .map_err(|e| ApiError::bad_request(format!("invalid sinceTime {text:?}: {e}")))?
                .as_millisecond(),
        ),
    };
    let options = LogOptions {
        follow: query.flag("follow"),
        previous: query.flag("previous"),
        timestamps: query.flag("timestamps"),
        tail_lines: number("tailLines")?,
        since_seconds: number("sinceSeconds")?,
        since_time_ms,
        limit_bytes: number("limitBytes")?,
    };
    let bad = |field: &str, value: i64, why: &str| {
        Err(ApiError::invalid(
            "",
            "PodLogOptions",
            "",
            &[vctl_machinery::validate::FieldError {
                reason: "FieldValueInvalid",
                field: field.into(),
                body: format!("Invalid value: {value}: {why}"),
            }],
        ))
    };
    match options {
        LogOptions { tail_lines: Some(n), .. } if n < 0 => bad("tailLines", n, "must be greater than or equal to 0"),
        LogOptions { limit_bytes: Some(n), .. } if n < 1 => bad("limitBytes", n, "must be greater than 0"),
        LogOptions { since_seconds: Some(n), .. } if n < 1 => bad("sinceSeconds", n, "must be greater than 0"),
        _ => Ok(options),
    }
}

/// Streams the log of a container.
pub(crate) async fn log(context: &Context, target: &Target) -> Result<Response<Body>, ApiError> {
    let pod = pod(context, target).await?;
    let options = log_options(&context.query)?;
    let container = container(&pod, context.query.get("container"))?;
    if pod["spec"]["nodeName"].as_str().unwrap_or_default().is_empty() {
        // Nothing has run yet: an empty log, as upstream.
        return Ok(respond::bytes(StatusCode::OK, "text/plain", Vec::new()));
    }
    let place = place(context, &pod, &container)?;
    let stream = context.plane.shared.streams.logs(place, options).await?;
    let mut response = respond::bytes(StatusCode::OK, "text/plain", Vec::new());
    *response.body_mut() = Body::from_stream(stream);
    Ok(response)
}

/// Exec, attach and port-forward.
pub(crate) async fn session(
    context: Context,
    target: Target,
    request: Request<Body>,
) -> Result<Response<Body>, ApiError> {
    let pod = pod(&context, &target).await?;
    let query = &context.query;
    let (session, name) = match target.subresource.as_str() {
        "portforward" => (Session::PortForward, String::new()),
        kind => {
            let attach = kind == "attach";
            let options = ExecOptions {
                command: query.all("command").map(ToOwned::to_owned).collect(),
                stdin: query.flag("stdin"),
                stdout: query.flag("stdout"),
                stderr: query.flag("stderr") && !query.flag("tty"),
                tty: query.flag("tty"),
                attach,
            };
            if !attach && options.command.is_empty() {
                return Err(ApiError::bad_request("you must specify at least 1 command for the container"));
            }
            if !(options.stdin || options.stdout || options.stderr) {
                return Err(ApiError::bad_request("you must specify at least 1 of stdin, stdout, stderr"));
            }
            (Session::Exec(options), container(&pod, query.get("container"))?)
        }
    };
    if matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")) {
        return Err(ApiError::bad_request(format!(
            "cannot exec into a container in a completed pod; current phase is {}",
            pod["status"]["phase"].as_str().unwrap_or_default()
        )));
    }
    let place = place(&context, &pod, &name)?;
    admission::admit_action(&context.call()?, &target, admission::Operation::Connect, options_object(&session, &name))
        .await?;
    let shared = &context.plane.shared;
    streaming::handle(request, session, place, shared.streams.clone(), &shared.tasks).await
}
