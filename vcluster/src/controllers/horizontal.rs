//! HorizontalPodAutoscalers: every fifteen seconds, how many replicas a target should have by what its pods use
//! (`pkg/controller/podautoscaler` upstream). Use is read from `metrics.k8s.io`; metrics of other APIs are not there.

pub(super) mod behavior;
mod calculate;
mod metric;
mod status;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use vctl_machinery::{quantity::thousandths, selector::LabelSelector, status::ApiError};

use super::{
    context::{Context, Failure},
    event::{Draft, EventType},
    object::{int, is_deleting, name, namespace, text},
};
use behavior::Bounds;
use calculate::Tolerance;
use status::Status;

pub(super) const RESOURCE: &str = "horizontalpodautoscalers.autoscaling";
/// How often each autoscaler is looked at.
const PERIOD: SignedDuration = SignedDuration::from_secs(15);
/// Tolerance of a direction that has none of its own.
const TOLERANCE: f64 = 0.1;
/// How often a scale is written again when its object changes at the same time.
const ATTEMPTS: usize = 5;

/// Why an autoscaler does nothing this time; told already in its conditions and events.
struct Told;

pub(super) async fn reconcile(cx: &Context<'_>, namespace: &str, of: &str) -> Result<Option<Timestamp>, Failure> {
    let Some(autoscaler) = cx.find(RESOURCE, namespace, of).await?.filter(|a| !is_deleting(a)) else {
        cx.hints.forget_autoscaler(cx.tenant, namespace, of);
        return Ok(None);
    };
    let mut status = Status::of(&autoscaler, cx.now);
    // Whatever stands in the way has been told; it is tried again at its time.
    let _: Result<(), Told> = Autoscaler { cx, object: &autoscaler }.run(&mut status).await;
    if let Some(changed) = status.changed(&autoscaler) {
        match cx.client.update(RESOURCE, namespace, of, "status", changed).await {
            // Changed or gone meanwhile: what is true is written the next time.
            Ok(_) | Err(ApiError { code: 404 | 409, .. }) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(cx.now.checked_add(PERIOD).ok())
}

/// Whether a change of an autoscaler is one that its controller must look at.
pub(super) fn view(autoscaler: &Value) -> impl PartialEq + '_ {
    (&autoscaler["spec"], is_deleting(autoscaler))
}

/// One autoscaler at work.
struct Autoscaler<'a> {
    cx: &'a Context<'a>,
    object: &'a Value,
}

/// The target's scale and where it is.
struct Scale {
    resource: String,
    object: Value,
}

impl Autoscaler<'_> {
    async fn tell(&self, event: EventType, reason: &str, message: impl Into<String>) {
        self.cx
            .record(Draft::new("autoscaling/v2", "HorizontalPodAutoscaler", self.object, event, reason, message))
            .await;
    }

    async fn run(&self, status: &mut Status) -> Result<(), Told> {
        let spec = &self.object["spec"];
        let mut scale = match self.scale().await {
            Ok(scale) => scale,
            Err(why) => {
                self.tell(EventType::Warning, "FailedGetScale", why.clone()).await;
                let message = format!("the HPA controller was unable to get the target's current scale: {why}");
                status.set("AbleToScale", false, "FailedGetScale", message);
                return Err(Told);
            }
        };
        let message = "the HPA controller was able to get the target's current scale";
        status.set("AbleToScale", true, "SucceededGetScale", message);
        let current = int(&scale.object, "/spec/replicas").unwrap_or_default();
        let bounds = Bounds {
            current,
            min: int(spec, "/minReplicas").unwrap_or(1),
            max: int(spec, "/maxReplicas").unwrap_or_default(),
        };
        self.history(|history| history.begin(current, self.cx.now));
        let (desired, reason) = if current == 0 {
            let message = "scaling is disabled since the replica count of the target is zero";
            status.set("ScalingActive", false, "ScalingDisabled", message);
            (0, String::new())
        } else if current > bounds.max {
            (bounds.max, "Current number of replicas above Spec.MaxReplicas".to_owned())
        } else if current < bounds.min {
            (bounds.min, "Current number of replicas below Spec.MinReplicas".to_owned())
        } else {
            status.current(current);
            self.by_metrics(&scale, bounds, status).await?
        };
        if desired == current {
            status.scaled(current, current, false);
            return Ok(());
        }
        match self.rescale(&mut scale, desired).await {
            Ok(()) => {}
            Err(error) => {
                let text = format!("New size: {desired}; reason: {reason}; error: {error}");
                self.tell(EventType::Warning, "FailedRescale", text).await;
                let message = format!("the HPA controller was unable to update the target scale: {error}");
                status.set("AbleToScale", false, "FailedUpdateScale", message);
                status.current(current);
                return Err(Told);
            }
        }
        let message = format!("the HPA controller was able to update the target scale to {desired}");
        status.set("AbleToScale", true, "SucceededRescale", message);
        self.tell(EventType::Normal, "SuccessfulRescale", format!("New size: {desired}; reason: {reason}")).await;
        self.history(|history| history.changed(&spec["behavior"], current, desired, self.cx.now));
        status.scaled(current, desired, true);
        Ok(())
    }

    /// The number of replicas by what pods use, and why it is another one.
    async fn by_metrics(&self, scale: &Scale, bounds: Bounds, status: &mut Status) -> Result<(i64, String), Told> {
        let selector = self.selector(scale, status).await?;
        let (proposed, by) = match metric::compute(self, &selector, bounds.current, status).await {
            Ok(found) => found,
            Err(error) => {
                self.tell(EventType::Warning, "FailedComputeMetricsReplicas", error).await;
                return Err(Told);
            }
        };
        let behavior = &self.object["spec"]["behavior"];
        let verdict = self.history(|history| history.normalize(behavior, bounds, proposed, self.cx.now));
        let reason = match proposed.cmp(&bounds.current) {
            std::cmp::Ordering::Greater => format!("{by} above target"),
            std::cmp::Ordering::Less => "All metrics below target".to_owned(),
            std::cmp::Ordering::Equal => String::new(),
        };
        status.set("AbleToScale", true, verdict.able.0, verdict.able.1);
        status.set("ScalingLimited", verdict.limited, verdict.limit.0, verdict.limit.1);
        Ok((verdict.replicas, reason))
    }

    /// Reads and changes what is remembered.
    fn history<R>(&self, f: impl FnOnce(&mut behavior::History) -> R) -> R {
        self.cx.hints.autoscaler(self.cx.tenant, namespace(self.object), name(self.object), f)
    }

    /// How far use may be from its target.
    fn tolerance(&self) -> Tolerance {
        let of = |direction: &str| {
            let given = self.object["spec"]["behavior"][direction].get("tolerance").and_then(thousandths);
            given.map_or(TOLERANCE, |millis| millis as f64 / 1000.0)
        };
        Tolerance { up: of("scaleUp"), down: of("scaleDown") }
    }

    /// The scale of the target, by whichever version of its kind has one.
    async fn scale(&self) -> Result<Scale, String> {
        let target = &self.object["spec"]["scaleTargetRef"];
        let (api_version, kind) = (text(target, "/apiVersion"), text(target, "/kind"));
        let group = match api_version.split('/').collect::<Vec<_>>()[..] {
            [_] => "",
            [group, _] => group,
            _ => return Err(format!("unexpected GroupVersion string: {api_version}")),
        };
        let catalog = self.cx.clients.catalog(self.cx.tenant).await;
        let rows: Vec<_> = catalog.rows().iter().filter(|r| r.group == group && r.kind == kind).collect();
        if rows.is_empty() {
            return Err(format!("no matches for kind {kind:?} in group {group:?}"));
        }
        let Some(row) = rows.into_iter().find(|r| r.subresource("scale").is_some()) else {
            return Err("the server could not find the requested resource".to_owned());
        };
        let resource = row.group_resource();
        match self.cx.client.scale(&resource, namespace(self.object), text(target, "/name")).await {
            Ok(object) => Ok(Scale { resource, object }),
            Err(e) if e.code == 404 && !row.custom => {
                let of = resource.replacen(&row.plural, &format!("{}/scale", row.plural), 1);
                Err(format!("{of} {:?} not found", text(target, "/name")))
            }
            Err(e) => Err(e.to_string()),
        }
    }

    /// Sets the number of replicas, whatever else of the target changes at the same time.
    async fn rescale(&self, scale: &mut Scale, replicas: i64) -> Result<(), ApiError> {
        let target = text(&self.object["spec"], "/scaleTargetRef/name").to_owned();
        let (client, namespace) = (&self.cx.client, namespace(self.object));
        for attempt in 1.. {
            scale.object["spec"]["replicas"] = replicas.into();
            match client.update(&scale.resource, namespace, &target, "scale", scale.object.clone()).await {
                Err(e) if e.code == 409 && attempt < ATTEMPTS => {
                    scale.object = client.scale(&scale.resource, namespace, &target).await?;
                }
                done => return done.map(drop),
            }
        }
        Ok(())
    }

    /// The selector of the target's pods, which no other autoscaler may scale.
    async fn selector(&self, scale: &Scale, status: &mut Status) -> Result<LabelSelector, Told> {
        let given = text(&scale.object, "/status/selector");
        if given.is_empty() {
            self.tell(EventType::Warning, "SelectorRequired", "selector is required").await;
            let message = "the HPA target's scale is missing a selector";
            status.set("ScalingActive", false, "InvalidSelector", message);
            return Err(Told);
        }
        let refused = |reason: &'static str, message: String| (reason, message);
        let (reason, message) = match LabelSelector::parse(given) {
            Ok(selector) => match self.others(given, &selector).await {
                Ok(others) if others.is_empty() => return Ok(selector),
                Ok(others) => refused(
                    "AmbiguousSelector",
                    format!("pods by selector {given} are controlled by multiple HPAs: [{}]", others.join(" ")),
                ),
                Err(error) => refused("InvalidSelector", error),
            },
            Err(error) => refused(
                "InvalidSelector",
                format!("couldn't convert selector into a corresponding internal selector object: {error}"),
            ),
        };
        self.tell(EventType::Warning, reason, message.clone()).await;
        status.set("ScalingActive", false, reason, message);
        Err(Told)
    }

    /// All autoscalers of a pod that the selector finds, if there are several.
    async fn others(&self, given: &str, selector: &LabelSelector) -> Result<Vec<String>, String> {
        self.history(|history| given.clone_into(&mut history.selector));
        let namespace = namespace(self.object);
        let known = self.cx.hints.autoscalers(self.cx.tenant, namespace);
        if known.len() < 2 {
            return Ok(Vec::new());
        }
        let pods = self.cx.client.list("pods", namespace, selector).await.map_err(|e| e.to_string())?.items;
        let of_these = |text: &str| {
            LabelSelector::parse(text).is_ok_and(|s| pods.iter().any(|p| s.matches(super::object::labels(p))))
        };
        let mut found: Vec<String> = known
            .into_iter()
            .filter(|(other, text)| *other == name(self.object) || of_these(text))
            .map(|(other, _)| format!("{namespace}/{other}"))
            .collect();
        if found.len() < 2 {
            found.clear();
        }
        Ok(found)
    }
}
