//! A bounded share for each tenant: every request has a seat while it is worked on, and waits its turn when there is none.
//!
//! A cluster counts its requests by its FlowSchemas and PriorityLevelConfigurations, as upstream; beyond that a tenant has no more seats
//! than an API server of its own would give it ([`SeatLimits`]), and tenants take turns when the process has none left. So the requests of
//! administrators (`system:masters`) are exempt from the priority levels of their cluster, but not from the tenant's share.
//!
//! Without a queue a request costs one short lock when it comes and one when it goes. Long-running requests have no seat.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::body::Body;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use tokio::sync::oneshot;
use vctl_machinery::{
    flow_control::{Entered, FlowControl, Level, Limits, Refused, Request, Scheduler, Target, Turn},
    status::ApiError,
};
use vctl_store::Tenant;

use crate::{guarded::guarded, plane::Plane, request::RequestInfo, server::respond, user::User};

/// The API group of what configures this.
pub(crate) const GROUP: &str = "flowcontrol.apiserver.k8s.io";
/// FlowSchemas.
pub(crate) const SCHEMAS: &str = "flowschemas.flowcontrol.apiserver.k8s.io";
/// PriorityLevelConfigurations.
pub(crate) const LEVELS: &str = "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io";

const SCHEMA_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
const LEVEL_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");

/// How long a request waits: a quarter of the time that upstream gives a request as a whole.
const WAIT_LIMIT: Duration = Duration::from_secs(15);

/// How many requests are worked on at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeatLimits {
    /// Requests that only read.
    pub read_only: Limits,
    /// Requests that change something.
    pub mutating: Limits,
    /// Watches of one user of a cluster.
    pub watches: usize,
}

impl Default for SeatLimits {
    /// A tenant has what upstream's flags `--max-requests-inflight` and `--max-mutating-requests-inflight` are by default, and the process
    /// three times that.
    fn default() -> Self {
        let limits = |tenant| Limits { total: 3 * tenant, tenant, waiting: 2_000 };
        Self { read_only: limits(400), mutating: limits(200), watches: 4_096 }
    }
}

type Seats = Mutex<Scheduler<Tenant, oneshot::Sender<()>>>;

/// Watches by cluster and user.
type Watches = Mutex<HashMap<(Tenant, String), usize>>;

/// The seats of the process.
pub(crate) struct Fairness {
    read_only: Arc<Seats>,
    mutating: Arc<Seats>,
    watches: Arc<Watches>,
    watch_limit: usize,
}

/// A watch that is counted for as long as its answer is sent.
struct Watch {
    watches: Arc<Watches>,
    whose: (Tenant, String),
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = watches.get_mut(&self.whose) {
            *count -= 1;
            if *count == 0 {
                watches.remove(&self.whose);
            }
        }
    }
}

/// A seat; dropping it gives it to whose turn it is.
pub(crate) struct Seat {
    seats: Arc<Seats>,
    tenant: Tenant,
    level: Arc<Level>,
    /// There is one to give back.
    held: bool,
}

/// A request that waits; dropping it takes it out of its queue.
struct Waiting {
    /// None once the request has a seat.
    seat: Option<Seat>,
    turn: Turn,
}

fn lock(seats: &Seats) -> MutexGuard<'_, Scheduler<Tenant, oneshot::Sender<()>>> {
    seats.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Seat {
    fn drop(&mut self) {
        if !self.held {
            return;
        }
        let next = lock(&self.seats).leave(&self.tenant, &self.level);
        for token in next {
            // Who has gone meanwhile gives the seat back by itself: see `Waiting`.
            let _ = token.send(());
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Some(mut seat) = self.seat.take() else { return };
        // Else it was given one in the same moment, which goes on to the next.
        seat.held = !lock(&seat.seats).give_up(&seat.tenant, &seat.level, self.turn);
    }
}

impl Fairness {
    pub(crate) fn new(limits: SeatLimits) -> Self {
        let seats = |limits| Arc::new(Mutex::new(Scheduler::new(limits)));
        Self {
            read_only: seats(limits.read_only),
            mutating: seats(limits.mutating),
            watches: Arc::default(),
            watch_limit: limits.watches,
        }
    }

    /// Counts a watch; none when the user has too many.
    fn watch(&self, tenant: Tenant, user: &str) -> Option<Watch> {
        let whose = (tenant, user.to_owned());
        let mut watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        let count = watches.entry(whose.clone()).or_default();
        if *count >= self.watch_limit {
            return None;
        }
        *count += 1;
        Some(Watch { watches: self.watches.clone(), whose })
    }

    /// Requests that wait.
    pub(crate) fn waiting(&self) -> usize {
        lock(&self.read_only).waiting() + lock(&self.mutating).waiting()
    }

    /// Waits for a seat; none when the request is not to be served now.
    async fn seat(&self, tenant: Tenant, mutating: bool, level: &Arc<Level>, flow: u64) -> Option<Seat> {
        let seats = if mutating { &self.mutating } else { &self.read_only };
        let mut receiver = None;
        let entered = lock(seats).enter(&tenant, level, flow, || {
            let (sender, seated) = oneshot::channel();
            receiver = Some(seated);
            sender
        });
        let seat = || Seat { seats: seats.clone(), tenant, level: level.clone(), held: true };
        match entered {
            Entered::Seated => Some(seat()),
            Entered::Refused(why @ (Refused::ConcurrencyLimit | Refused::QueueFull)) => {
                tracing::debug!(?why, level = level.name, "a request is refused");
                None
            }
            Entered::Waits(turn) => {
                let mut waiting = Waiting { seat: Some(seat()), turn };
                match tokio::time::timeout(WAIT_LIMIT, receiver?).await {
                    Ok(Ok(())) => waiting.seat.take(),
                    Ok(Err(_)) | Err(_) => None,
                }
            }
        }
    }
}

/// A request that may go on.
#[derive(Default)]
pub(crate) struct Admitted {
    /// Kept for as long as the request is worked on.
    seat: Option<Seat>,
    /// Kept for as long as the answer is sent.
    watch: Option<Watch>,
    /// UIDs of the schema and of the level.
    counted: Option<(HeaderValue, HeaderValue)>,
}

impl Admitted {
    /// Says in the answer which schema and level the request was counted with, and gives the seat back.
    pub(crate) fn finish(self, mut response: Response<Body>) -> Response<Body> {
        if let Some((schema, level)) = self.counted {
            response.headers_mut().insert(SCHEMA_UID, schema);
            response.headers_mut().insert(LEVEL_UID, level);
        }
        drop(self.seat);
        match self.watch {
            Some(watch) => response.map(|body| guarded(body, watch)),
            None => response,
        }
    }
}

/// Waits until the request may go on; else the answer for one that is not served. Long-running requests have no seat.
pub(crate) async fn admit(
    plane: &Plane,
    user: &User,
    info: &RequestInfo,
) -> Result<Result<Admitted, Response<Body>>, ApiError> {
    let (is_watch, fairness) = (info.verb == "watch", &plane.shared.fairness);
    if is_long_running(info) && !is_watch {
        return Ok(Ok(Admitted::default()));
    }
    let control = plane.flow_control().await?;
    let Some(class) = control.classify(&request(user, info)) else { return Ok(Ok(Admitted::default())) };
    let value = |uid: &str| HeaderValue::from_str(uid).unwrap_or(HeaderValue::from_static(""));
    let counted = Some((value(class.schema_uid), value(&class.level.uid)));
    let (mut seat, mut watch) = (None, None);
    if is_watch {
        watch = fairness.watch(plane.tenant, &user.name);
    } else {
        seat = fairness.seat(plane.tenant, is_mutating(info), class.level, class.flow).await;
    }
    if seat.is_none() && watch.is_none() {
        return Ok(Err(Admitted { counted, ..Admitted::default() }.finish(too_many_requests())));
    }
    Ok(Ok(Admitted { seat, watch, counted }))
}

/// What upstream says, which is no Status.
fn too_many_requests() -> Response<Body> {
    let mut response = respond::text(StatusCode::TOO_MANY_REQUESTS, "Too many requests, please try again later.\n");
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

fn request<'a>(user: &'a User, info: &'a RequestInfo) -> Request<'a> {
    let target = if info.is_resource {
        Target::Resource {
            group: &info.group,
            resource: &info.resource,
            subresource: &info.subresource,
            namespace: &info.namespace,
        }
    } else {
        Target::Path(&info.path)
    };
    Request { user: &user.name, groups: &user.groups, verb: &info.verb, target }
}

/// As upstream's `BasicLongRunningRequestCheck` of kube-apiserver.
fn is_long_running(info: &RequestInfo) -> bool {
    matches!(&*info.verb, "watch" | "proxy")
        || info.is_resource && matches!(&*info.subresource, "attach" | "exec" | "proxy" | "log" | "portforward")
}

fn is_mutating(info: &RequestInfo) -> bool {
    !matches!(&*info.verb, "get" | "list" | "watch" | "head" | "options")
}

impl Plane {
    /// The FlowSchemas and PriorityLevelConfigurations.
    pub(crate) async fn flow_control(&self) -> Result<Arc<FlowControl>, ApiError> {
        let generation = match self.flow_control.get() {
            Ok(control) => return Ok(control),
            Err(generation) => generation,
        };
        let control = FlowControl::new(&self.objects(SCHEMAS, None).await?, &self.objects(LEVELS, None).await?);
        Ok(self.flow_control.put(generation, control))
    }
}
