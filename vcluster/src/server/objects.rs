//! Requests about resources.

use std::sync::Arc;

use axum::body::Body;
use http::{Request, Response, StatusCode};
use serde_json::{Value, json};
use vctl_machinery::{
    catalog::{Catalog, Descriptor},
    status::ApiError,
};
use vctl_runtime::heavy;

use super::{
    Context, actions, body, listing,
    negotiate::{self, Accept, Form},
    pods, proxy, respond, review,
    show::{self, one},
    watch,
};
use crate::{
    document::meta,
    objects::{
        Call, Target,
        delete::{DeleteOptions, Deleted},
        list::{At, ListQuery, Selection},
        strategy,
        update::Patch,
    },
    resource_metrics,
};

const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";
const APPLY_PATCH: &str = "application/apply-patch+yaml";

/// Answers a request that has been authorized.
pub(crate) async fn serve(mut context: Context, request: Request<Body>) -> Result<Response<Body>, ApiError> {
    let catalog = context.plane.catalog().await?;
    let info = &context.info;
    let Some(descriptor) = catalog.resource(&info.group, &info.version, &info.resource).cloned() else {
        return Ok(respond::page_not_found());
    };
    if !info.subresource.is_empty() && descriptor.subresource(&info.subresource).is_none() {
        return Ok(respond::page_not_found());
    }
    let namespace = if descriptor.namespaced { info.namespace.as_str() } else { "" };
    let named = !info.name.is_empty() && !matches!(&*info.verb, "list" | "watch" | "deletecollection");
    // Without a namespace there are only lists, watches and reviews.
    if descriptor.namespaced && namespace.is_empty() && !matches!(&*info.verb, "list" | "watch") {
        return Ok(respond::method_not_allowed());
    }
    context.warning = descriptor.definition.as_ref().and_then(|d| d.deprecation()).map(ToOwned::to_owned);
    let name = if named { info.name.as_str() } else { "" };
    let target = Target::new(descriptor.clone(), namespace, name).through(&info.subresource);
    if !supported(&descriptor, &context) {
        return Err(ApiError::method_not_allowed(&descriptor.group, &descriptor.plural, &info.verb));
    }
    if let Some(answer) = special(&context, &target) {
        return answer.run(context, catalog, target, request).await;
    }
    match &*info.verb {
        "get" => get(&context, &target).await,
        "list" => list(&context, &target).await,
        "watch" => {
            let must_read = request.extensions().get().cloned();
            watch::serve(&context, target, must_read).await
        }
        "create" => create(context, target, request).await,
        "update" => update(context, target, request).await,
        "patch" => patch(context, target, request).await,
        "delete" => delete(context, target, request).await,
        "deletecollection" => delete_collection(context, target, request).await,
        _ => Ok(respond::method_not_allowed()),
    }
}

fn supported(descriptor: &Descriptor, context: &Context) -> bool {
    let verb = context.info.verb.as_str();
    let verbs = match context.info.subresource.as_str() {
        "" => &descriptor.verbs,
        name => match descriptor.subresource(name) {
            Some(s) => &s.verbs,
            None => return false,
        },
    };
    verbs.iter().any(|v| v == verb)
        || (verb == "watch" && verbs.iter().any(|v| v == "list") && !resource_metrics::serves(descriptor))
}

/// Requests that are no create, read, update or delete of an object.
enum Special {
    Review,
    Log,
    Session,
    Action,
    Proxy,
}

fn special(context: &Context, target: &Target) -> Option<Special> {
    let group = target.descriptor.group.as_str();
    if matches!(group, "authorization.k8s.io")
        || (group == "authentication.k8s.io" && target.descriptor.verbs == ["create"])
    {
        return Some(Special::Review);
    }
    if group.is_empty() && target.descriptor.plural == "pods" {
        match context.info.subresource.as_str() {
            "log" => return Some(Special::Log),
            "exec" | "attach" | "portforward" => return Some(Special::Session),
            _ => {}
        }
    }
    if context.info.subresource == "proxy" {
        return Some(Special::Proxy);
    }
    let creates = context.info.verb == "create";
    (creates && (!target.subresource.is_empty() || target.is("", "bindings"))).then_some(Special::Action)
}

impl Special {
    async fn run(
        self,
        context: Context,
        catalog: Arc<Catalog>,
        target: Target,
        request: Request<Body>,
    ) -> Result<Response<Body>, ApiError> {
        match self {
            Self::Proxy => proxy::serve(&context, &target, request).await,
            Self::Log => pods::log(&context, &target).await,
            Self::Session => pods::session(context, target, request).await,
            Self::Review => {
                let accept = negotiate::accept_untabled(&context.headers, &context.query)?;
                let object = read_object(&context, &target.descriptor, request).await?.0;
                let answer = review::answer(&context, &target, object).await?;
                respond::object(StatusCode::CREATED, &answer, &accept, &context.headers, &[])
            }
            Self::Action => {
                let accept = negotiate::accept_untabled(&context.headers, &context.query)?;
                let call = context.call()?;
                let limit = context.plane.shared.config.max_body;
                let (parts, stream) = request.into_parts();
                let bytes = body::read(stream, &parts.headers, limit).await?;
                let (object, _) = heavy::sized(bytes.len(), || body::object(&bytes, &parts.headers)).await?;
                if let Some(audit) = &context.audit {
                    audit.sent(&object);
                }
                let answer = actions::create(&call, &catalog, target, object).await?;
                respond::object(StatusCode::CREATED, &answer, &accept, &context.headers, &call.take_warnings())
            }
        }
    }
}

/// Reads and parses the body and checks that it is of the descriptor's kind; also returns duplicate fields, and how large it was.
async fn read_object(
    context: &Context,
    descriptor: &Descriptor,
    request: Request<Body>,
) -> Result<(Value, Vec<String>, usize), ApiError> {
    let (parts, stream) = request.into_parts();
    let bytes = body::read(stream, &parts.headers, context.plane.shared.config.max_body).await?;
    let parsed = heavy::sized(bytes.len(), || body::object(&bytes, &parts.headers)).await;
    let (mut object, noted) = parsed.map_err(|mut e| {
        e.message = e.message.replacen(body::UNKNOWN_TYPE, &descriptor.kind, 1);
        e
    })?;
    if !object.is_object() {
        let what = match &object {
            Value::Array(_) => "array",
            Value::String(_) => "string",
            Value::Bool(_) => "bool",
            _ => "number",
        };
        return Err(ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse error: json: cannot unmarshal \
             {what} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
             \"json:\\\"kind,omitempty\\\"\" }} ({})",
            descriptor.kind,
            body::summary(&bytes)
        )));
    }
    of_kind(descriptor, &mut object)?;
    if let Some(audit) = &context.audit {
        audit.sent(&object);
    }
    Ok((object, noted, bytes.len()))
}

async fn read_patch(bytes: &[u8], yaml: bool) -> Result<(Value, Vec<String>), ApiError> {
    heavy::sized(bytes.len(), || body::patch(bytes, yaml)).await
}

/// 400 unless the object is of the descriptor's kind and version; what it leaves out is filled in.
fn of_kind(descriptor: &Descriptor, object: &mut Value) -> Result<(), ApiError> {
    if !object.is_object() {
        return Err(ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse error: json: cannot unmarshal into Go value of type struct",
            descriptor.kind
        )));
    }
    let expected = descriptor.api_version();
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let kind = object["kind"].as_str().unwrap_or_default();
    if !version.is_empty() && version != expected {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({expected})"
        )));
    }
    if !kind.is_empty() && kind != descriptor.kind {
        return Err(ApiError::bad_request(format!(
            "{kind} in version {:?} cannot be handled as a {}: converting ({}.{kind}) to ({}.{}): unknown conversion",
            descriptor.version,
            descriptor.kind,
            descriptor.version,
            descriptor.group.split('.').next().filter(|g| !g.is_empty()).unwrap_or("core"),
            descriptor.kind
        )));
    }
    object["apiVersion"] = expected.into();
    object["kind"] = descriptor.kind.clone().into();
    Ok(())
}

async fn get(context: &Context, target: &Target) -> Result<Response<Body>, ApiError> {
    let accept = negotiate::accept(&context.headers, &context.query)?;
    let call = context.call()?;
    if let At::NotOlderThan(revision) = at(&context.query)? {
        call.reach(revision).await?;
    }
    if show::is_whole(target, &accept)
        && let Some(entry) = context.plane.entry(&target.key()).await?
        && let Some(answer) = show::stored(context, target, StatusCode::OK, &entry.value, entry.revision, &call)
    {
        return Ok(answer);
    }
    let object = call.get(target).await?;
    one(context, target, &accept, StatusCode::OK, &object, &call)
}

/// 422 for versions and ways of matching them that do not go together (`internalversion/validation/validation.go`).
pub(crate) fn refuse_options(query: &crate::request::Query, watch: bool) -> Result<(), ApiError> {
    let (text, exactness, initial) =
        (query.get("resourceVersion"), query.get("resourceVersionMatch"), query.has("sendInitialEvents"));
    let mut errors = Vec::new();
    let forbidden = |why: &str| ("resourceVersionMatch", "FieldValueForbidden", format!("Forbidden: {why}"));
    let mut refuse = |(field, reason, body): (&str, &'static str, String)| {
        errors.push(vctl_machinery::validate::FieldError { reason, field: field.to_owned(), body });
    };
    if watch && initial && exactness != "NotOlderThan" {
        refuse(forbidden("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"));
    }
    if !exactness.is_empty() {
        if watch && !initial {
            refuse(forbidden("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"));
        } else if !watch && text.is_empty() {
            refuse(forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided"));
        }
        if !watch && !query.get("continue").is_empty() {
            refuse(forbidden("resourceVersionMatch is forbidden when continue is provided"));
        }
        let known: &[&str] = if watch { &["NotOlderThan"] } else { &["Exact", "NotOlderThan", ""] };
        if !known.contains(&exactness) {
            let list: Vec<String> = known.iter().map(|k| format!("{k:?}")).collect();
            let body = format!("Unsupported value: {exactness:?}: supported values: {}", list.join(", "));
            refuse(("resourceVersionMatch", "FieldValueNotSupported", body));
        }
        if !watch && exactness == "Exact" && text == "0" {
            refuse(forbidden("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""));
        }
        if watch && !query.get("continue").is_empty() {
            refuse(forbidden("resourceVersionMatch is forbidden when continue is provided"));
        }
    }
    if !watch && initial {
        let body = "Forbidden: sendInitialEvents is forbidden for list".to_owned();
        refuse(("sendInitialEvents", "FieldValueForbidden", body));
    }
    if errors.is_empty() { Ok(()) } else { Err(ApiError::invalid("meta.k8s.io", "ListOptions", "", &errors)) }
}

/// Which revision the query asks for.
pub(crate) fn at(query: &crate::request::Query) -> Result<At, ApiError> {
    let (text, exactness) = (query.get("resourceVersion"), query.get("resourceVersionMatch"));
    refuse_options(query, false)?;
    if text.is_empty() {
        return Ok(At::Newest);
    }
    let Ok(revision) = text.parse::<u64>() else {
        return Err(list_error(
            "resourceVersion",
            "FieldValueInvalid",
            format!("Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"),
        ));
    };
    if !query.get("continue").is_empty() && revision != 0 {
        return Err(ApiError::bad_request("specifying resource version is not allowed when using continue"));
    }
    Ok(match (revision, exactness) {
        (0, _) => At::Newest,
        (revision, "Exact") => At::Exact(revision),
        (revision, _) => At::NotOlderThan(revision),
    })
}

pub(crate) fn list_error(field: &str, reason: &'static str, text: String) -> ApiError {
    ApiError::invalid(
        "meta.k8s.io",
        "ListOptions",
        "",
        &[vctl_machinery::validate::FieldError { reason, field: field.to_owned(), body: text }],
    )
}

pub(crate) fn selection(context: &Context, descriptor: &Descriptor) -> Result<Selection, ApiError> {
    Selection::parse(descriptor, context.query.get("labelSelector"), context.query.get("fieldSelector"))
}

fn list_query(context: &Context, descriptor: &Descriptor) -> Result<ListQuery, ApiError> {
    let query = &context.query;
    // How long a list may take is no matter here, but it has to be a number.
    query.integer("timeoutSeconds")?;
    Ok(ListQuery {
        // A negative one is none, as upstream's storage sees it.
        limit: query.integer("limit")?.and_then(|limit| usize::try_from(limit).ok()).unwrap_or_default(),
        selection: selection(context, descriptor)?,
        at: at(query)?,
        token: query.get("continue").to_owned(),
    })
}

async fn list(context: &Context, target: &Target) -> Result<Response<Body>, ApiError> {
    let accept = negotiate::accept(&context.headers, &context.query)?;
    let call = context.call()?;
    let query = list_query(context, &target.descriptor)?;
    if resource_metrics::serves(&target.descriptor) {
        // They are measured, not stored.
        let value = show::list(context, target, &accept, call.list(target, &query).await?);
        return respond::object(StatusCode::OK, &value, &accept, &context.headers, &call.take_warnings());
    }
    let page = call.page(target, &query).await?;
    listing::page(context, target, &accept, &call, page).await
}

async fn create(context: Context, target: Target, request: Request<Body>) -> Result<Response<Body>, ApiError> {
    let accept = negotiate::accept(&context.headers, &context.query)?;
    let mut call = context.call()?;
    let (mut object, noted, size) = read_object(&context, &target.descriptor, request).await?;
    call.size = size;
    heavy::sized(size, || call.check(&target.descriptor, &mut object, noted)).await?;
    let created = call.create_owned(&target, object, true).await?;
    if show::is_whole(&target, &accept)
        && let Some((document, revision)) = &created.stored
        && let Some(answer) = show::stored(&context, &target, StatusCode::CREATED, document, *revision, &call)
    {
        return Ok(answer);
    }
    one(&context, &target, &accept, StatusCode::CREATED, &created.object, &call)
}

async fn update(context: Context, target: Target, request: Request<Body>) -> Result<Response<Body>, ApiError> {
    let accept = negotiate::accept(&context.headers, &context.query)?;
    let mut call = context.call()?;
    let changed = if target.subresource == "scale" {
        let (parts, stream) = request.into_parts();
        let bytes = body::read(stream, &parts.headers, context.plane.shared.config.max_body).await?;
        let (object, _) = heavy::sized(bytes.len(), || body::object(&bytes, &parts.headers)).await?;
        if let Some(audit) = &context.audit {
            audit.sent(&object);
        }
        let object = call.modify(&target, true, |_| Ok(object.clone())).await?;
        crate::objects::update::Changed { object, created: false }
    } else {
        let (mut object, noted, size) = read_object(&context, &target.descriptor, request).await?;
        call.size = size;
        heavy::sized(size, || call.check(&target.descriptor, &mut object, noted)).await?;
        call.replace(&target, object).await?
    };
    let status = if changed.created { StatusCode::CREATED } else { StatusCode::OK };
    one(&context, &target, &accept, status, &changed.object, &call)
}

async fn patch(context: Context, target: Target, request: Request<Body>) -> Result<Response<Body>, ApiError> {
    let accept = negotiate::accept(&context.headers, &context.query)?;
    let mut call = context.call()?;
    let (parts, stream) = request.into_parts();
    let bytes = body::read(stream, &parts.headers, context.plane.shared.config.max_body).await?;
    let media = body::media_type(&parts.headers);
    call.size = bytes.len();
    let patch = match media.as_str() {
        JSON_PATCH => Patch::Json(read_patch(&bytes, false).await?.0),
        MERGE_PATCH => Patch::Merge(read_patch(&bytes, false).await?.0),
        STRATEGIC_PATCH if !target.descriptor.custom => Patch::Strategic(read_patch(&bytes, false).await?.0),
        APPLY_PATCH => {
            let (mut configuration, noted) = read_patch(&bytes, true).await?;
            if context.query.get("fieldManager").is_empty() {
                return Err(patch_error(
                    "fieldManager",
                    "FieldValueRequired",
                    "Required value: is required for apply patch",
                ));
            }
            of_kind(&target.descriptor, &mut configuration)?;
            heavy::sized(bytes.len(), || call.check(&target.descriptor, &mut configuration, noted)).await?;
            crate::objects::create::place(&target, &mut configuration)?;
            Patch::Apply { configuration, force: context.query.flag("force") }
        }
        _ => {
            let mut accepted = vec![JSON_PATCH, MERGE_PATCH];
            if !target.descriptor.custom {
                accepted.push(STRATEGIC_PATCH);
            }
            accepted.push(APPLY_PATCH);
            return Err(body::unknown(&accepted));
        }
    };
    if let Some(audit) = context.audit.as_ref().filter(|audit| audit.wants_patches()) {
        audit.sent_patch(read_patch(&bytes, media == APPLY_PATCH).await?.0);
    }
    if context.query.has("force") && media != APPLY_PATCH {
        return Err(patch_error("force", "FieldValueForbidden", "Forbidden: may not be specified for non-apply patch"));
    }
    if call.manager == "unknown" {
        "kubectl-patch".clone_into(&mut call.manager);
    }
    let changed = call.patch(&target, &patch).await?;
    let status = if changed.created { StatusCode::CREATED } else { StatusCode::OK };
    one(&context, &target, &accept, status, &changed.object, &call)
}

fn patch_error(field: &str, reason: &'static str, text: &str) -> ApiError {
    ApiError::invalid(
        "meta.k8s.io",
        "PatchOptions",
        "",
        &[vctl_machinery::validate::FieldError { reason, field: field.to_owned(), body: text.to_owned() }],
    )
}

/// `DeleteOptions` from the body, or else from the query.
async fn delete_options(
    context: &Context,
    call: &mut Call,
    request: Request<Body>,
) -> Result<(DeleteOptions, Value), ApiError> {
    let (parts, stream) = request.into_parts();
    let bytes = body::read(stream, &parts.headers, context.plane.shared.config.max_body).await?;
    let mut options = if bytes.is_empty() {
        json!({})
    } else {
        heavy::sized(bytes.len(), || body::object(&bytes, &parts.headers)).await?.0
    };
    if let Some(audit) = context.audit.as_ref().filter(|audit| !bytes.is_empty() && audit.wants_patches()) {
        audit.sent_patch(options.clone());
    }
    let query = &context.query;
    if bytes.is_empty() {
        if let Some(seconds) = query.integer("gracePeriodSeconds")? {
            options["gracePeriodSeconds"] = seconds.into();
        }
        if !query.get("propagationPolicy").is_empty() {
            options["propagationPolicy"] = query.get("propagationPolicy").into();
        }
        if query.has("orphanDependents") {
            options["orphanDependents"] = query.flag("orphanDependents").into();
        }
    }
    let dry_runs: Vec<&str> = options["dryRun"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    call.dry_run |= super::dry_run("DeleteOptions", &dry_runs)?;
    Ok((DeleteOptions::parse(&options)?, options))
}

async fn delete(context: Context, target: Target, request: Request<Body>) -> Result<Response<Body>, ApiError> {
    let accept = negotiate::accept(&context.headers, &context.query)?;
    let mut call = context.call()?;
    let (options, _) = delete_options(&context, &mut call, request).await?;
    match call.delete(&target, &options).await? {
        Deleted::Marked(object) => one(&context, &target, &accept, StatusCode::OK, &object, &call),
        Deleted::Gone(object) if strategy::returns_deleted(&target.descriptor) => {
            one(&context, &target, &accept, StatusCode::OK, &object, &call)
        }
        Deleted::Gone(object) => {
            let mut status = crate::in_process::success();
            let mut details =
                json!({ "name": target.name, "kind": target.descriptor.plural, "uid": meta(&object, "uid") });
            if !target.descriptor.group.is_empty() {
                details["group"] = target.descriptor.group.clone().into();
            }
            status["details"] = details;
            let accept = Accept { form: Form::Object, ..Accept::json() };
            respond::object(StatusCode::OK, &status, &accept, &context.headers, &call.take_warnings())
        }
    }
}

async fn delete_collection(
    context: Context,
    target: Target,
    request: Request<Body>,
) -> Result<Response<Body>, ApiError> {
    let accept = negotiate::accept(&context.headers, &context.query)?;
    let mut call = context.call()?;
    let query = list_query(&context, &target.descriptor)?;
    let (options, _) = delete_options(&context, &mut call, request).await?;
    let page = call.delete_collection(&target, &query, &options).await?;
    let value = show::list(&context, &target, &accept, page);
    respond::object(StatusCode::OK, &value, &accept, &context.headers, &call.take_warnings())
}
