//! API priority and fairness: the objects, how requests are counted, and that no tenant starves another.

use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt as _, future::join_all, stream::FuturesUnordered};
use tokio::sync::{mpsc, oneshot};
use vctl_machinery::flow_control::Limits;

use super::*;
use crate::{config::SeatLimits, controllers::Controllers};

const SCHEMAS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";
const LEVELS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// With so many seats for changes.
async fn seats(total: usize, tenant: usize, waiting: usize) -> Fixture {
    let mutating = Limits { total, tenant, waiting };
    Fixture::with(Arc::new(NoStreams), |config| config.seats = SeatLimits { mutating, ..config.seats }).await
}

fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap()
}

fn header<'a>(response: &'a Response<Body>, name: &str) -> &'a str {
    response.headers().get(name).map(|v| v.to_str().unwrap()).unwrap_or_default()
}

/// A request that is worked on until its body comes: it holds its seat.
struct Held {
    answer: oneshot::Receiver<StatusCode>,
    body: mpsc::Sender<Bytes>,
    /// The client leaves when this is dropped.
    _gone: oneshot::Sender<()>,
}

/// Sends the head of a POST; `asked` hears when the body is asked for.
fn hold(f: &Fixture, cluster: &str, peer: &Peer, name: &str, asked: &mpsc::UnboundedSender<String>) -> Held {
    let (body, mut pieces) = mpsc::channel::<Bytes>(1);
    let (asked, of) = (asked.clone(), format!("{cluster}/{name}"));
    let pieces = futures::stream::once(async move {
        let _ = asked.send(of);
        Ok::<_, std::convert::Infallible>(pieces.recv().await.unwrap_or_default())
    });
    let request = Request::builder().method("POST").uri(MAPS).header("content-type", "application/json");
    let request = request.body(Body::from_stream(pieces)).unwrap();
    let (planes, peer, cluster) = (f.planes.clone(), peer.clone(), cluster.to_owned());
    let (done, answer) = oneshot::channel();
    let (gone, left) = oneshot::channel::<()>();
    Tasks::new().spawn("a client", async move {
        tokio::select! {
            response = planes.handle(&cluster, request, peer) => drop(done.send(response.status())),
            _ = left => {}
        }
    });
    Held { answer, body, _gone: gone }
}

impl Held {
    /// Sends the body, which lets the request end.
    async fn finish(self, name: &str) -> StatusCode {
        let _ = self.body.send(config_map(name, "x").to_string().into()).await;
        self.answer.await.unwrap()
    }
}

/// A second cluster with its administrator.
async fn quiet(f: &Fixture) -> Peer {
    let name = EnvironmentName::new("quiet").unwrap();
    f.planes.create(&name, Vec::new()).await.unwrap();
    peer(&f.planes, &name).await
}

/// Waits until so many requests wait for a seat.
async fn until_waiting(f: &Fixture, count: usize) {
    let reached = async {
        while f.planes.waiting_requests() != count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), reached).await.expect("all of them wait");
}

#[tokio::test]
async fn every_cluster_has_the_mandatory_and_suggested_objects() {
    let f = Fixture::new().await;
    let names = |list: &Value| -> Vec<String> {
        list["items"].as_array().unwrap().iter().map(|o| o["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    let schemas = f.ok("GET", SCHEMAS, Value::Null).await;
    assert_eq!(
        names(&schemas),
        [
            "catch-all",
            "exempt",
            "global-default",
            "kube-controller-manager",
            "kube-scheduler",
            "kube-system-service-accounts",
            "probes",
            "service-accounts",
            "system-leader-election",
            "system-node-high",
            "system-nodes"
        ]
    );
    for schema in schemas["items"].as_array().unwrap() {
        let condition = &schema["status"]["conditions"][0];
        assert_eq!((&condition["type"], &condition["status"]), (&json!("Dangling"), &json!("False")));
        assert_eq!(condition["lastTransitionTime"], schema["metadata"]["creationTimestamp"]);
    }
    let levels = f.ok("GET", LEVELS, Value::Null).await;
    assert_eq!(
        names(&levels),
        [
            "catch-all",
            "exempt",
            "global-default",
            "leader-election",
            "node-high",
            "system",
            "workload-high",
            "workload-low"
        ]
    );
    // What is mandatory cannot be changed.
    let mut catch_all = f.ok("GET", &format!("{SCHEMAS}/catch-all"), Value::Null).await;
    catch_all["spec"]["matchingPrecedence"] = json!(9000);
    let (status, answer) = f.send("PUT", &format!("{SCHEMAS}/catch-all"), catch_all).await;
    assert_eq!(status, 422, "{answer}");
    assert!(answer["message"].as_str().unwrap().contains("spec of 'catch-all' must equal the fixed value"), "{answer}");
}

#[tokio::test]
async fn answers_say_how_the_request_was_counted() {
    let f = Fixture::new().await;
    let object = async |path: String| f.ok("GET", &path, Value::Null).await;
    let counted = async |headers: &[(&str, &str)], uri: &str| -> (String, String) {
        let response = f.raw(&f.admin, headers, "GET", uri, Value::Null).await;
        let of = |name| header(&response, name).to_owned();
        (of("x-kubernetes-pf-flowschema-uid"), of("x-kubernetes-pf-prioritylevel-uid"))
    };
    let of = async |schema: &str, level: &str| {
        let (schema, level) = (object(format!("{SCHEMAS}/{schema}")).await, object(format!("{LEVELS}/{level}")).await);
        (uid(&schema).to_owned(), uid(&level).to_owned())
    };
    assert_eq!(counted(&[], MAPS).await, of("exempt", "exempt").await);
    let alice = [("impersonate-user", "alice")];
    // Also where the request is forbidden.
    assert_eq!(counted(&alice, MAPS).await, of("global-default", "global-default").await);
    let account = [("impersonate-user", "system:serviceaccount:default:x")];
    assert_eq!(counted(&account, MAPS).await, of("service-accounts", "workload-low").await);
    // A watch is counted, and has no seat; other long-running requests are not even counted.
    assert_eq!(counted(&[], &format!("{MAPS}?watch=1")).await, of("exempt", "exempt").await);
    assert_eq!(counted(&[], "/api/v1/namespaces/default/pods/none/log").await, (String::new(), String::new()));

    // A schema of one's own counts from now on.
    let mut schema = object(format!("{SCHEMAS}/global-default")).await;
    schema["metadata"] = json!({ "name": "mine" });
    schema["spec"]["matchingPrecedence"] = json!(50);
    schema["spec"]["priorityLevelConfiguration"]["name"] = json!("workload-high");
    schema["spec"]["rules"][0]["subjects"] = json!([{ "kind": "User", "user": { "name": "alice" } }]);
    f.ok("POST", SCHEMAS, schema).await;
    let wanted = of("mine", "workload-high").await;
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    while counted(&alice, MAPS).await != wanted {
        assert!(tokio::time::Instant::now() < deadline, "the new schema does not count");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_noisy_tenant_does_not_starve_a_quiet_one() {
    let f = seats(4, 2, 1000).await;
    let other = quiet(&f).await;
    let (asked, mut asking) = mpsc::unbounded_channel();
    let noisy: Vec<Held> = (0..300).map(|i| hold(&f, NAME, &f.admin, &format!("n{i}"), &asked)).collect();
    // Two have the tenant's seats, all others wait.
    asking.recv().await.unwrap();
    asking.recv().await.unwrap();
    until_waiting(&f, 298).await;
    // The quiet tenant does what it wants.
    for i in 0..20 {
        let request = Request::builder().method("POST").uri(MAPS).header("content-type", "application/json");
        let request = request.body(Body::from(config_map(&format!("q{i}"), "x").to_string())).unwrap();
        assert_eq!(f.planes.handle("quiet", request, other.clone()).await.status(), 201);
    }
    assert_eq!(f.planes.waiting_requests(), 298, "nothing of the noisy one has moved");
    // Reading has seats of its own, and a watch needs none.
    assert_eq!(f.send("GET", MAPS, Value::Null).await.0, 200);
    assert!(asking.try_recv().is_err());
    let all = noisy.into_iter().enumerate().map(|(i, held)| async move { held.finish(&format!("n{i}")).await });
    assert!(join_all(all).await.into_iter().all(|status| status == 201));
    assert_eq!(f.planes.waiting_requests(), 0);
}

#[tokio::test]
async fn the_next_seat_goes_to_who_has_waited_in_turn() {
    let f = seats(2, 2, 1000).await;
    let other = quiet(&f).await;
    let (asked, mut asking) = mpsc::unbounded_channel();
    let mut noisy: FuturesUnordered<_> = FuturesUnordered::new();
    let mut held: Vec<Held> = (0..100).map(|i| hold(&f, NAME, &f.admin, &format!("n{i}"), &asked)).collect();
    let first = asking.recv().await.unwrap();
    asking.recv().await.unwrap();
    until_waiting(&f, 98).await;
    let quiet = hold(&f, "quiet", &other, "q", &asked);
    until_waiting(&f, 99).await;
    // One ends; of the two seats that follow the quiet tenant has one, however many wait before it.
    let at: usize = first.trim_start_matches("dev/n").parse().unwrap();
    assert_eq!(held.remove(at).finish("first").await, 201);
    let next = [asking.recv().await.unwrap()];
    let mut seated = next.to_vec();
    if seated[0] != "quiet/q" {
        let at: usize = seated[0].trim_start_matches("dev/n").parse().unwrap();
        let at = at - usize::from(at > first.trim_start_matches("dev/n").parse::<usize>().unwrap());
        assert_eq!(held.remove(at).finish("second").await, 201);
        seated.push(asking.recv().await.unwrap());
    }
    assert!(seated.contains(&"quiet/q".to_owned()), "{seated:?}");
    assert_eq!(quiet.finish("q").await, 201);
    noisy.extend(held.into_iter().enumerate().map(|(i, held)| async move { held.finish(&format!("m{i}")).await }));
    while let Some(status) = noisy.next().await {
        assert_eq!(status, 201);
    }
}

#[tokio::test]
async fn who_finds_the_queue_full_is_told_when_to_come_again() {
    let f = seats(1, 1, 3).await;
    let (asked, mut asking) = mpsc::unbounded_channel();
    let held: Vec<Held> = (0..4).map(|i| hold(&f, NAME, &f.admin, &format!("n{i}"), &asked)).collect();
    asking.recv().await.unwrap();
    until_waiting(&f, 3).await;
    let response = f.raw(&f.admin, &[], "POST", MAPS, config_map("no", "x")).await;
    assert_eq!((response.status().as_u16(), header(&response, "retry-after")), (429, "1"));
    assert_ne!(header(&response, "x-kubernetes-pf-flowschema-uid"), "");
    assert_eq!(header(&response, "content-type"), "text/plain; charset=utf-8");
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body, "Too many requests, please try again later.\n");
    // Who leaves while it waits is out of the queue, and its seat is not lost.
    drop(held);
    until_waiting(&f, 0).await;
    assert_eq!(f.send("POST", MAPS, config_map("yes", "x")).await.0, 201);
}

#[tokio::test]
async fn mandatory_objects_come_back_and_schemas_say_whether_their_level_exists() {
    let f = Fixture::new().await;
    let tasks = Tasks::new();
    Controllers::new(f.store.clone(), Arc::new(f.planes.clone()), f.clock.clone(), tasks.clone()).run();
    let until = async |path: String, is: fn(&Value) -> bool| {
        let deadline = tokio::time::Instant::now() + Duration::from_mins(1);
        loop {
            let (_, object) = f.send("GET", &path, Value::Null).await;
            if is(&object) {
                return;
            }
            assert!(tokio::time::Instant::now() < deadline, "{object}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    f.ok("DELETE", &format!("{SCHEMAS}/catch-all"), Value::Null).await;
    f.ok("DELETE", &format!("{LEVELS}/exempt"), Value::Null).await;
    for path in [format!("{SCHEMAS}/catch-all"), format!("{LEVELS}/exempt")] {
        until(path, |o| o["kind"] != "Status").await;
    }
    let mut schema = f.ok("GET", &format!("{SCHEMAS}/global-default"), Value::Null).await;
    schema["metadata"] = json!({ "name": "mine" });
    schema["spec"]["priorityLevelConfiguration"]["name"] = json!("gold");
    f.ok("POST", SCHEMAS, schema).await;
    until(format!("{SCHEMAS}/mine"), |o| {
        o["status"]["conditions"][0]["message"]
            == "This FlowSchema references the PriorityLevelConfiguration object named \"gold\" but there is no such object"
    })
    .await;
    let mut gold = f.ok("GET", &format!("{LEVELS}/system"), Value::Null).await;
    gold["metadata"] = json!({ "name": "gold" });
    f.ok("POST", LEVELS, gold).await;
    until(format!("{SCHEMAS}/mine"), |o| o["status"]["conditions"][0]["status"] == "False").await;
    assert!(tasks.shutdown(Duration::from_secs(20)).await);
}

#[tokio::test]
async fn a_user_has_so_many_watches_and_no_more() {
    let f = Fixture::with(Arc::new(NoStreams), |config| config.seats = SeatLimits { watches: 3, ..config.seats }).await;
    let watch = format!("{MAPS}?watch=1");
    let as_alice = [("impersonate-user", "alice"), ("impersonate-group", "system:masters")];
    let mut open = Vec::new();
    for _ in 0..3 {
        open.push(f.raw(&f.admin, &[], "GET", &watch, Value::Null).await);
    }
    assert!(open.iter().all(|r| r.status() == 200));
    let refused = f.raw(&f.admin, &[], "GET", &watch, Value::Null).await;
    assert_eq!((refused.status().as_u16(), header(&refused, "retry-after")), (429, "1"));
    assert_eq!(f.raw(&f.admin, &as_alice, "GET", &watch, Value::Null).await.status(), 200, "others have their own");
    // One that ends, or is refused for another reason, counts no more.
    open.pop();
    let wrong = format!("{MAPS}?watch=1&resourceVersion=x");
    assert_eq!(f.raw(&f.admin, &[], "GET", &wrong, Value::Null).await.status(), 422);
    assert_eq!(f.raw(&f.admin, &[], "GET", &watch, Value::Null).await.status(), 200);
}
