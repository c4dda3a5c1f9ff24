//! Lists: chunks, versions, selectors, and what they are printed as.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::{
    api::{Answer, Api},
    suite::Suite,
};

const CHUNKS: &str =
    "[sig-api-machinery] Servers with support for API chunking should return chunks of results for list calls";
const EXPIRED: &str = "[sig-api-machinery] Servers with support for API chunking should support continue listing from the last key if the \
                       original version has been compacted away, though the list is inconsistent";
const TABLES: &str = "[sig-api-machinery] Servers with support for Table transformation";
const VERSIONS: &str = "k8s.io/docs/reference/using-api/api-concepts (semantics for get and list); staging/src/k8s.io/apimachinery/pkg/apis/meta/internalversion/validation/validation.go";

fn fill(api: &Api, count: usize) -> Result<()> {
    for i in 0..count {
        let body = json!({ "metadata": { "name": format!("template-{i:03}"), "labels": { "even": (i % 2 == 0).to_string() } },
            "template": { "spec": { "containers": [{ "name": "c", "image": "registry.example/c:1" }] } } });
        api.post("v1~/podtemplates", body).is(201)?;
    }
    Ok(())
}

/// Reads all chunks; the sizes and the names.
fn chunks(api: &Api, query: &str, limit: usize) -> Result<(Vec<usize>, Vec<String>, Vec<Answer>)> {
    let (mut sizes, mut names, mut pages, mut next) = (Vec::new(), Vec::new(), Vec::new(), String::new());
    loop {
        let page = api.get(&format!("v1~/podtemplates?limit={limit}&continue={next}{query}")).is(200)?;
        sizes.push(page.names().len());
        names.extend(page.names().iter().map(|n| (*n).to_owned()));
        page.text("/metadata/continue").clone_into(&mut next);
        pages.push(page);
        if next.is_empty() {
            return Ok((sizes, names, pages));
        }
    }
}

pub(crate) fn checks(s: &mut Suite) {
    s.check("chunks hold no more than the limit, and remainingItemCount counts down", CHUNKS, |api| {
        fill(api, 17)?;
        let (sizes, names, pages) = chunks(api, "", 5)?;
        ensure!(sizes == [5, 5, 5, 2], "{sizes:?}");
        let left: Vec<_> = pages.iter().map(|p| p.number("/metadata/remainingItemCount")).collect();
        ensure!(left == [12, 7, 2, 0], "{left:?}");
        ensure!(pages[3].at("/metadata/remainingItemCount").is_null(), "the last chunk has no count");
        let mut sorted = names.clone();
        sorted.dedup();
        ensure!(names.len() == 17 && sorted == names, "doubled or missing: {names:?}");
        Ok(())
    });
    s.check("all chunks tell the version of the first", CHUNKS, |api| {
        fill(api, 6)?;
        let first = api.get("v1~/podtemplates?limit=2").is(200)?;
        api.delete("v1~/podtemplates/template-005").ok()?;
        api.post(
            "v1~/podtemplates",
            "{metadata: {name: template-006}, template: {spec: {containers: [{name: c, image: i}]}}}",
        )
        .is(201)?;
        let mut next = first.text("/metadata/continue").to_owned();
        let mut names = first.names().len();
        while !next.is_empty() {
            let page = api.get(&format!("v1~/podtemplates?limit=2&continue={next}")).is(200)?;
            ensure!(page.version() == first.version(), "{} is not {}", page.version(), first.version());
            ensure!(!page.names().contains(&"template-006"), "an object that came later");
            names += page.names().len();
            page.text("/metadata/continue").clone_into(&mut next);
        }
        ensure!(names == 6, "{names}");
        Ok(())
    });
    s.check("a list without limit is whole and has no continue token", CHUNKS, |api| {
        fill(api, 7)?;
        let list = api
            .get("v1~/podtemplates")
            .is(200)?
            .has("{kind: PodTemplateList, apiVersion: v1, metadata: {continue: null, remainingItemCount: null}}")?;
        ensure!(list.names().len() == 7, "{:?}", list.names());
        Ok(())
    });
    s.check("chunks of a selection have no remainingItemCount", CHUNKS, |api| {
        fill(api, 10)?;
        let (sizes, _, pages) = chunks(api, "&labelSelector=even%3Dtrue", 2)?;
        ensure!(sizes.iter().sum::<usize>() == 5, "{sizes:?}");
        ensure!(pages.iter().all(|p| p.at("/metadata/remainingItemCount").is_null()), "a count with a selector");
        Ok(())
    });
    s.check("a continue token of nonsense is 400", CHUNKS, |api| {
        api.get("v1~/podtemplates?limit=5&continue=nonsense")
            .refused(400, "BadRequest", "continue key is not valid")
            .map(drop)
    });
    s.check("a continue token of another resource version format is 400", EXPIRED, |api| {
        // {"v":"meta.k8s.io/v2","rv":1,"start":"a"}
        let token = "eyJ2IjoibWV0YS5rOHMuaW8vdjIiLCJydiI6MSwic3RhcnQiOiJhIn0";
        api.get(&format!("v1~/podtemplates?limit=5&continue={token}"))
            .refused(400, "BadRequest", "continue key is not valid: server does not recognize this encoded version")
            .map(drop)
    });
    s.check("an expired token is 410 with a token that goes on inconsistently", EXPIRED, |api| {
        fill(api, 4)?;
        let page = api.get("v1~/podtemplates?limit=2").is(200)?;
        // The same start at a version that is long gone.
        let token = page.text("/metadata/continue").to_owned();
        let start = decode(&token)?;
        let old = encode(&json!({ "v": "meta.k8s.io/v1", "rv": 1, "start": start["start"] }));
        let answer = api.get(&format!("v1~/podtemplates?limit=2&continue={old}"));
        if answer.code == 200 {
            // Revision 1 is still there: then the token is served as it was at that version.
            return Ok(());
        }
        let answer = answer.refused(410, "Expired", "continue")?;
        let next = answer.text("/metadata/continue").to_owned();
        ensure!(!next.is_empty(), "no token to go on with: {}", answer.body);
        let rest = api.get(&format!("v1~/podtemplates?limit=2&continue={next}")).is(200)?;
        ensure!(rest.names() == ["template-002", "template-003"], "{:?}", rest.names());
        Ok(())
    });

    s.check("resourceVersion unset reads what was just written", VERSIONS, |api| {
        for i in 0..10 {
            api.post("v1~/configmaps", json!({ "metadata": { "name": format!("c{i}") } })).is(201)?;
            let list = api.get("v1~/configmaps").is(200)?;
            ensure!(list.names().contains(&format!("c{i}").as_str()), "not yet there");
        }
        Ok(())
    });
    s.check("resourceVersion=0 is any version", VERSIONS, |api| {
        api.get("v1~/configmaps?resourceVersion=0")
            .is(200)?
            .has("{kind: ConfigMapList, metadata: {resourceVersion: <any>}}")
            .map(drop)
    });
    s.check("resourceVersion=N is not older than N", VERSIONS, |api| {
        let made = api.post("v1~/configmaps", "{metadata: {name: a}}").is(201)?;
        let list = api.get(&format!("v1~/configmaps?resourceVersion={}", made.version())).is(200)?;
        ensure!(list.names().contains(&"a"), "{:?}", list.names());
        let (got, asked): (u64, u64) = (list.version().parse()?, made.version().parse()?);
        ensure!(got >= asked, "{got} < {asked}");
        Ok(())
    });
    s.check("resourceVersionMatch=Exact is the state at that version", VERSIONS, |api| {
        let made = api.post("v1~/configmaps", "{metadata: {name: a}, data: {k: old}}").is(201)?;
        api.patch("merge", "v1~/configmaps/a", "{data: {k: new}}").is(200)?;
        api.post("v1~/configmaps", "{metadata: {name: b}}").is(201)?;
        let list = api
            .get(&format!("v1~/configmaps?resourceVersion={}&resourceVersionMatch=Exact", made.version()))
            .is(200)?;
        ensure!(list.version() == made.version(), "{}", list.version());
        ensure!(!list.names().contains(&"b"), "{:?}", list.names());
        let a = list.at("/items").as_array().into_iter().flatten().find(|i| i["metadata"]["name"] == "a");
        ensure!(a.is_some_and(|a| a["data"]["k"] == "old"), "{}", list.body);
        Ok(())
    });
    s.check("resourceVersionMatch=Exact with chunks stays at that version", VERSIONS, |api| {
        fill(api, 4)?;
        let at = api.get("v1~/podtemplates").is(200)?.version().to_owned();
        api.delete("v1~/podtemplates?labelSelector=even%3Dtrue").is(200)?;
        let first =
            api.get(&format!("v1~/podtemplates?resourceVersion={at}&resourceVersionMatch=Exact&limit=3")).is(200)?;
        ensure!(first.names().len() == 3 && first.version() == at, "{:?} {}", first.names(), first.version());
        let next =
            api.get(&format!("v1~/podtemplates?limit=3&continue={}", first.text("/metadata/continue"))).is(200)?;
        ensure!(next.names() == ["template-003"], "{:?}", next.names());
        Ok(())
    });
    for (name, query, message) in [
        (
            "resourceVersionMatch without a version",
            "resourceVersionMatch=Exact",
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
        ),
        (
            "Exact at 0",
            "resourceVersion=0&resourceVersionMatch=Exact",
            "resourceVersionMatch: Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
        ),
        (
            "an unknown match",
            "resourceVersion=1&resourceVersionMatch=Sometimes",
            "resourceVersionMatch: Unsupported value: \"Sometimes\": supported values: \"Exact\", \"NotOlderThan\"",
        ),
        (
            "a match with continue",
            "resourceVersion=1&resourceVersionMatch=Exact&limit=1&continue=x",
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided",
        ),
        (
            "sendInitialEvents in a list",
            "sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
            "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list",
        ),
    ] {
        s.check(format!("{name} is 422"), VERSIONS, move |api| {
            api.get(&format!("v1~/configmaps?{query}")).refused(422, "Invalid", message).map(drop)
        });
    }
    s.check("a version in the future is 504 with a time to try again", "staging/src/k8s.io/apiserver/pkg/storage/errors.go NewTooLargeResourceVersionError", |api| {
        let answer = api.get("v1~/configmaps?resourceVersion=999999999").refused(504, "Timeout", "Too large resource version: 999999999, current: ")?;
        answer.has("{details: {retryAfterSeconds: <any>, causes: [{reason: ResourceVersionTooLarge, message: Too large resource version}]}}").map(drop)
    });
    s.check(
        "a version that is none is refused",
        "staging/src/k8s.io/apiserver/pkg/storage/versioner.go APIObjectVersioner.ParseResourceVersion",
        |api| {
            let answer = api.get("v1~/configmaps?resourceVersion=abc");
            ensure!(answer.code == 400 || answer.code == 422, "{answer:?}");
            answer.clone().has("{kind: Status, status: Failure}")?;
            Ok(())
        },
    );
    s.check("get with a version is not older than it", VERSIONS, |api| {
        let made = api.post("v1~/configmaps", "{metadata: {name: a}}").is(201)?;
        api.get(&format!("v1~/configmaps/a?resourceVersion={}", made.version())).is(200)?;
        api.get("v1~/configmaps/a?resourceVersion=0").is(200).map(drop)
    });

    selectors(s);
    tables(s);
}

fn decode(token: &str) -> Result<serde_json::Value> {
    use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
    Ok(serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(token.trim_end_matches('='))?)?)
}

fn encode(token: &serde_json::Value) -> String {
    use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
    BASE64_URL_SAFE_NO_PAD.encode(token.to_string())
}

fn selectors(s: &mut Suite) {
    const LABELS: &str = "staging/src/k8s.io/apimachinery/pkg/labels/selector.go (grammar); [sig-node] Secrets should patch a secret (list by label)";
    const FIELDS: &str = "staging/src/k8s.io/apimachinery/pkg/fields/selector.go; pkg/apis/core/v1/conversion.go AddFieldLabelConversionsFor*";
    for (selector, expected) in [
        ("tier=front", vec!["a", "b"]),
        ("tier==front", vec!["a", "b"]),
        ("tier!=front", vec!["c", "d", "kube-root-ca.crt"]),
        ("tier in (front,back)", vec!["a", "b", "c"]),
        ("tier notin (front)", vec!["c", "d", "kube-root-ca.crt"]),
        ("tier", vec!["a", "b", "c"]),
        ("!tier", vec!["d", "kube-root-ca.crt"]),
        ("tier=front,env=prod", vec!["a"]),
        ("size>3", vec!["b", "c"]),
        ("size<5", vec!["a", "b"]),
        ("tier=", vec![]),
        ("example.com/tier in (x)", vec!["d"]),
    ] {
        s.check(format!("label selector {selector}"), LABELS, move |api| {
            for (name, labels) in [
                ("a", json!({ "tier": "front", "env": "prod", "size": "3" })),
                ("b", json!({ "tier": "front", "env": "test", "size": "4" })),
                ("c", json!({ "tier": "back", "size": "5" })),
                ("d", json!({ "example.com/tier": "x" })),
            ] {
                api.post("v1~/configmaps", json!({ "metadata": { "name": name, "labels": labels } })).is(201)?;
            }
            api.wait_for("v1~/configmaps/kube-root-ca.crt", "{}")?;
            let query = selector.replace(' ', "%20").replace('=', "%3D").replace('>', "%3E").replace('<', "%3C");
            let list = api.get(&format!("v1~/configmaps?labelSelector={query}")).is(200)?;
            ensure!(list.names() == expected, "{:?} is not {expected:?}", list.names());
            Ok(())
        });
    }
    for (path, selector, count) in [
        ("v1~/secrets", "type=example.com/mine", 1),
        ("v1~/secrets", "metadata.name=one", 1),
        ("v1~/secrets", "metadata.name!=one", 1),
        ("v1~/secrets", "metadata.namespace={ns},type=Opaque", 1),
        ("v1/namespaces", "metadata.name={ns},status.phase=Active", 1),
        ("v1/namespaces", "metadata.name={ns},status.phase=Terminating", 0),
        ("v1~/pods", "spec.restartPolicy=Never", 1),
        ("v1~/pods", "spec.schedulerName=nobody,status.phase=Pending", 1),
        ("v1~/pods", "spec.nodeName=", 1),
        ("v1~/pods", "spec.serviceAccountName=default", 1),
        ("v1~/events", "involvedObject.name=thing,reason=Because,type=Warning", 1),
        ("v1~/events", "involvedObject.kind=Pod", 0),
        ("v1~/services", "spec.clusterIP=None", 1),
        ("v1~/services", "spec.type=ClusterIP", 1),
        ("certificates.k8s.io/v1/certificatesigningrequests", "spec.signerName=example.com/none-here", 0),
    ] {
        s.check(format!("field selector {selector} of {path}"), FIELDS, move |api| {
            api.post("v1~/secrets", "{metadata: {name: one}}").is(201)?;
            api.post("v1~/secrets", "{metadata: {name: two}, type: example.com/mine}").is(201)?;
            api.post("v1~/pods", "{metadata: {name: p}, spec: {schedulerName: nobody, restartPolicy: Never, containers: [{name: c, image: registry.example/c:1}]}}").is(201)?;
            api.post("v1~/events", "{metadata: {name: e}, reason: Because, type: Warning, involvedObject: {kind: Thing, name: thing, namespace: '{ns}'}}").is(201)?;
            api.post("v1~/services", "{metadata: {name: s}, spec: {clusterIP: None}}").is(201)?;
            let query = selector.replace('=', "%3D").replace('!', "%21").replace(',', "%2C");
            let list = api.get(&format!("{path}?fieldSelector={query}")).is(200)?;
            ensure!(list.names().len() == count, "{:?}", list.names());
            Ok(())
        });
    }
    s.check("fields that cannot be selected are 400", FIELDS, |api| {
        for (path, field) in
            [("v1~/configmaps", "data.x"), ("v1~/pods", "spec.hostname"), ("apps/v1~/deployments", "status.replicas")]
        {
            api.get(&format!("{path}?fieldSelector={field}%3D1")).refused(
                400,
                "BadRequest",
                if path == "v1~/pods" {
                    "field label not supported: spec.hostname"
                } else {
                    "is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
                },
            )?;
        }
        Ok(())
    });
    s.check("selectors that do not parse are 400", LABELS, |api| {
        for selector in ["a%20b", "a%3Db%3Dc", "in%20(", "%21", "a%20in%20(b"] {
            api.get(&format!("v1~/configmaps?labelSelector={selector}")).refused(400, "BadRequest", "")?;
        }
        Ok(())
    });
}

fn tables(s: &mut Suite) {
    const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
    s.check("pods as a Table", "[sig-api-machinery] Servers with support for Table transformation should return pod details", |api| {
        api.post("v1~/pods", "{metadata: {name: p}, spec: {schedulerName: nobody, containers: [{name: c, image: registry.example/c:1}]}}").is(201)?;
        let table = api.with("Accept", TABLE).get("v1~/pods/p").is(200)?.has("{kind: Table, apiVersion: meta.k8s.io/v1, rows: [{cells: [p, 0/1, Pending, '0', <any>, <none>, <none>, <none>, <none>], object: {kind: PartialObjectMetadata, apiVersion: meta.k8s.io/v1, metadata: {name: p}}}]}")?;
        let columns: Vec<_> = table.at("/columnDefinitions").as_array().into_iter().flatten().filter_map(|c| c["name"].as_str()).collect();
        ensure!(columns.len() >= 9 && columns[..5] == ["Name", "Ready", "Status", "Restarts", "Age"], "{columns:?}");
        Ok(())
    });
    s.check("chunks of a Table", "[sig-api-machinery] Servers with support for Table transformation should return chunks of table results for list calls", |api| {
        fill(api, 5)?;
        let api = api.with("Accept", TABLE);
        let first = api.get("v1~/podtemplates?limit=2").is(200)?;
        ensure!(first.at("/rows").as_array().is_some_and(|r| r.len() == 2), "{}", first.body);
        ensure!(first.number("/metadata/remainingItemCount") == 3, "{}", first.body);
        let next = api.get(&format!("v1~/podtemplates?limit=5&continue={}", first.text("/metadata/continue"))).is(200)?;
        ensure!(next.at("/rows").as_array().is_some_and(|r| r.len() == 3), "{}", next.body);
        Ok(())
    });
    s.check("generic metadata across all nodes", "[sig-api-machinery] Servers with support for Table transformation should return generic metadata details across all namespaces for nodes", |api| {
        let table = api.with("Accept", TABLE).get("v1/nodes").is(200)?;
        let rows = table.at("/rows").as_array().cloned().unwrap_or_default();
        ensure!(!rows.is_empty() && rows.iter().all(|r| r["object"]["metadata"]["name"] == r["cells"][0]), "{}", table.body);
        ensure!(table.at("/columnDefinitions").as_array().is_some_and(|c| c.len() >= 2), "columns");
        Ok(())
    });
    s.check(
        "a kind that has no columns says name and age",
        "staging/src/k8s.io/apiserver/pkg/registry/rest/table.go NewDefaultTableConvertor",
        |api| {
            api.post("v1~/limitranges", "{metadata: {name: l}, spec: {limits: []}}").is(201)?;
            let table = api.with("Accept", TABLE).get("v1~/limitranges").is(200)?;
            ensure!(
                table.at("/columnDefinitions/0/name") == "Name" && table.at("/rows/0/cells/0") == "l",
                "{}",
                table.body
            );
            Ok(())
        },
    );
    s.check("an unknown conversion is 406", "[sig-api-machinery] Servers with support for Table transformation should return a 406 for a backend which does not implement metadata", |api| {
        api.with("Accept", "application/json;as=Unknown;v=v1;g=meta.k8s.io").get("v1~/pods").refused(406, "NotAcceptable", "only the following media types are accepted: ")?;
        api.with("Accept", "text/csv").get("v1~/pods").refused(406, "NotAcceptable", "only the following media types are accepted: ").map(drop)
    });
    s.check("a review has no Table", "[sig-api-machinery] Servers with support for Table transformation should return a 406 for a backend which does not implement metadata", |api| {
        api.with("Accept", TABLE)
            .post("authorization.k8s.io/v1/selfsubjectaccessreviews", "{spec: {resourceAttributes: {verb: get, resource: pods}}}")
            .refused(406, "NotAcceptable", "")
            .map(drop)
    });
    s.check(
        "includeObject=Object and None",
        "staging/src/k8s.io/apiserver/pkg/endpoints/handlers/response.go asTable",
        |api| {
            api.post("v1~/configmaps", "{metadata: {name: a}, data: {k: v}}").is(201)?;
            let api = api.with("Accept", TABLE);
            api.get("v1~/configmaps/a?includeObject=Object")
                .is(200)?
                .has("{rows: [{object: {kind: ConfigMap, apiVersion: v1, data: {k: v}}}]}")?;
            api.get("v1~/configmaps/a?includeObject=None").is(200)?.has("{rows: [{object: null}]}")?;
            api.get("v1~/configmaps/a?includeObject=Everything").refused(400, "BadRequest", "").map(drop)
        },
    );
    s.check("only metadata: PartialObjectMetadata and its list", TABLES, |api| {
        api.post("v1~/configmaps", "{metadata: {name: a, labels: {l: a}}, data: {k: v}}").is(201)?;
        api.with("Accept", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")
            .get("v1~/configmaps/a")
            .is(200)?
            .has("{kind: PartialObjectMetadata, apiVersion: meta.k8s.io/v1, metadata: {name: a}, data: null}")?;
        api.with("Accept", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")
            .get("v1~/configmaps?labelSelector=l")
            .is(200)?
            .has("{kind: PartialObjectMetadataList, apiVersion: meta.k8s.io/v1, items: [{metadata: {name: a}, data: null}]}")
            .map(drop)
    });
    s.check("the first form that is known is taken", "staging/src/k8s.io/apiserver/pkg/endpoints/handlers/negotiation/negotiate.go", |api| {
        api.with("Accept", "application/json;as=Table;v=v9;g=meta.k8s.io,application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
            .get("v1~/configmaps")
            .is(200)?
            .has("{kind: Table}")
            .map(drop)
    });
}
