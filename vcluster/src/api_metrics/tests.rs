use http::Method;

use super::*;
use crate::request::{Query, RequestInfo};

fn labels(method: &Method, uri: &str) -> Labels {
    let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
    let query = Query::parse(query);
    let info = RequestInfo::new(method, path, &query);
    let labels = Labels::of(&info, false, query.has("dryRun"));
    assert_eq!(Labels::id_of(&info, false, query.has("dryRun")), labels.id(), "{uri}");
    labels
}

#[test]
fn requests_are_told_apart_as_upstream_does() {
    for (method, uri, verb, scope, resource, subresource) in [
        (Method::GET, "/api/v1/pods", "LIST", "cluster", "pods", ""),
        (Method::GET, "/api/v1/namespaces/a/pods", "LIST", "namespace", "pods", ""),
        (Method::GET, "/api/v1/namespaces/a/pods/b", "GET", "resource", "pods", ""),
        (Method::GET, "/api/v1/namespaces/a/pods?watch=1", "WATCH", "namespace", "pods", ""),
        (Method::GET, "/api/v1/namespaces/a/pods/b/log", "CONNECT", "resource", "pods", "log"),
        (Method::POST, "/api/v1/namespaces/a/pods/b/exec", "CONNECT", "resource", "pods", "exec"),
        (Method::POST, "/api/v1/namespaces/a/configmaps", "POST", "namespace", "configmaps", ""),
        (Method::PUT, "/api/v1/namespaces/a/pods/b/status", "PUT", "resource", "pods", "status"),
        (Method::DELETE, "/api/v1/namespaces/a/pods", "DELETECOLLECTION", "namespace", "pods", ""),
        (Method::GET, "/livez/etcd", "GET", "", "", "/livez"),
        (Method::GET, "/apis/apps/v1", "GET", "", "", "/apis"),
        (Method::GET, "/nonsense/1", "GET", "", "", ""),
    ] {
        let found = labels(&method, uri);
        let got = (found.verb, found.scope, &*found.resource, &*found.subresource);
        assert_eq!(got, (verb, scope, resource, subresource), "{uri}");
    }
}

#[test]
fn what_is_counted_of_a_cluster_is_counted_of_the_server_too() {
    let all = AllMetrics::default();
    let (one, two) = (all.of(Tenant(1)), all.of(Tenant(2)));
    let list = labels(&Method::GET, "/api/v1/pods");
    for metrics in [&one, &one, &two] {
        metrics.series(list.clone()).answered(200, Duration::from_millis(1));
    }
    let count = |metrics: &ApiMetrics| {
        let mut text = Exposition::default();
        metrics.write(&mut text);
        let text = text.into_text();
        let line = text.lines().find(|l| l.starts_with("apiserver_request_total{")).unwrap_or_default().to_owned();
        line.rsplit(' ').next().unwrap_or_default().to_owned()
    };
    assert_eq!((count(&one), count(&two), count(&all.server)), ("2".into(), "1".into(), "3".into()));
    all.forget(Tenant(1));
    assert_eq!((count(&all.of(Tenant(1))), count(&all.server)), (String::new(), "3".into()));
}

#[test]
fn the_number_of_series_is_bounded() {
    let metrics = ApiMetrics::new(2, None);
    for n in 0..10 {
        let labels = labels(&Method::GET, &format!("/apis/g{n}/v1/things"));
        metrics.series(labels).answered(200, Duration::ZERO);
    }
    assert_eq!(metrics.series.read().unwrap().len(), 3, "two, and one for the rest");
}
