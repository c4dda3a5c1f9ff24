use super::*;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn names(list: &Value) -> Vec<String> {
    list["items"].as_array().unwrap().iter().map(|i| i["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

async fn filled() -> Fixture {
    let f = Fixture::new().await;
    for i in 0..5 {
        f.config_map(&format!("m{i}"), "1").await;
    }
    f
}

#[tokio::test]
async fn pages_show_one_state() {
    let f = filled().await;
    let first = f.ok("GET", &format!("{MAPS}?limit=2"), Value::Null).await;
    assert_eq!(names(&first), ["kube-root-ca.crt", "m0"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 4);
    let token = first["metadata"]["continue"].as_str().unwrap().to_owned();
    f.config_map("m00", "new").await;
    let second = f.ok("GET", &format!("{MAPS}?limit=10&continue={token}"), Value::Null).await;
    assert_eq!(names(&second), ["m1", "m2", "m3", "m4"]);
    assert_eq!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    assert!(second["metadata"].get("continue").is_none());
}

#[tokio::test]
async fn a_limit_bounds_what_is_deleted() {
    let f = filled().await;
    let all = f.ok("GET", &format!("{MAPS}?limit=-1"), Value::Null).await;
    assert_eq!(names(&all).len(), 6, "a negative one is none");
    let first = f.ok("DELETE", &format!("{MAPS}?limit=2"), Value::Null).await;
    assert_eq!(names(&first), ["kube-root-ca.crt", "m0"]);
    let token = first["metadata"]["continue"].as_str().unwrap().to_owned();
    let second = f.ok("DELETE", &format!("{MAPS}?limit=1&continue={token}"), Value::Null).await;
    assert_eq!(names(&second), ["m1"]);
    let left = names(&f.ok("GET", &format!("{MAPS}?fieldSelector=metadata.name!=kube-root-ca.crt"), Value::Null).await);
    assert_eq!(left, ["m2", "m3", "m4"]);
}

#[tokio::test]
async fn an_expired_token_offers_an_inconsistent_one() {
    use vctl_store::Store;
    let f = filled().await;
    let first = f.ok("GET", &format!("{MAPS}?limit=2"), Value::Null).await;
    let token = first["metadata"]["continue"].as_str().unwrap().to_owned();
    f.config_map("m00", "new").await;
    f.config_map("z", "new").await;
    let tenant = f.store.tenant(NAME).await.unwrap().unwrap();
    f.store.compact(tenant.tenant, tenant.revision).await.unwrap();
    let (status, expired) = f.send("GET", &format!("{MAPS}?limit=2&continue={token}"), Value::Null).await;
    assert_eq!((status, &expired["reason"]), (StatusCode::GONE, &json!("Expired")));
    let token = expired["metadata"]["continue"].as_str().unwrap();
    let rest = f.ok("GET", &format!("{MAPS}?continue={token}"), Value::Null).await;
    assert_eq!(names(&rest), ["m00", "m1", "m2", "m3", "m4", "z"]);
}

#[tokio::test]
async fn resource_versions_are_checked() {
    let f = filled().await;
    let newest: u64 =
        f.ok("GET", MAPS, Value::Null).await["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    let (status, _) = f.send("GET", &format!("{MAPS}?resourceVersionMatch=Exact&resourceVersion=0"), Value::Null).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    let (status, _) = f.send("GET", &format!("{MAPS}?resourceVersionMatch=Exact"), Value::Null).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    let exact =
        f.ok("GET", &format!("{MAPS}?resourceVersionMatch=Exact&resourceVersion={}", newest - 1), Value::Null).await;
    assert_eq!(names(&exact).len(), 5);
    f.ok("GET", &format!("{MAPS}?resourceVersion=0"), Value::Null).await;
    f.ok("GET", &format!("{MAPS}?resourceVersion={newest}"), Value::Null).await;
    let (status, answer) = f.send("GET", &format!("{MAPS}?resourceVersion={}", newest + 10), Value::Null).await;
    assert_eq!(
        (status, &answer["details"]["causes"][0]["reason"]),
        (StatusCode::GATEWAY_TIMEOUT, &json!("ResourceVersionTooLarge"))
    );
}

#[tokio::test]
async fn tables_and_metadata_are_made_for_every_kind() {
    let f = filled().await;
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    let (_, table) = f.send_as(&f.admin, &[("accept", accept)], "GET", MAPS, Value::Null).await;
    assert_eq!((&table["kind"], table["rows"].as_array().unwrap().len()), (&json!("Table"), 6));
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    let accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json";
    let (_, list) = f.send_as(&f.admin, &[("accept", accept)], "GET", MAPS, Value::Null).await;
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert!(list["items"][0].get("data").is_none());
}

#[tokio::test]
async fn a_collection_is_deleted() {
    let f = filled().await;
    f.ok("DELETE", MAPS, Value::Null).await;
    assert!(names(&f.ok("GET", MAPS, Value::Null).await).is_empty());
}

#[tokio::test]
async fn a_list_shows_what_get_shows() {
    let f = filled().await;
    for (list, version, kind) in [
        ("/api/v1/namespaces/default/configmaps", "v1", "ConfigMap"),
        // Constants, which derive their uid, and a kind that is stored in another version.
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles", "rbac.authorization.k8s.io/v1", "ClusterRole"),
        ("/api/v1/namespaces", "v1", "Namespace"),
    ] {
        let found = f.ok("GET", list, Value::Null).await;
        assert!(!found["items"].as_array().unwrap().is_empty(), "{list}");
        for item in found["items"].as_array().unwrap() {
            let mut item = item.clone();
            assert!(item.get("kind").is_none(), "items of typed lists have no type");
            item["apiVersion"] = version.into();
            item["kind"] = kind.into();
            let name = item["metadata"]["name"].as_str().unwrap();
            assert_eq!(f.ok("GET", &format!("{list}/{name}"), Value::Null).await, item);
            // The same by its name.
            let named = f.ok("GET", &format!("{list}?fieldSelector=metadata.name%3D{name}"), Value::Null).await;
            assert_eq!(names(&named), [name]);
        }
    }
    let none = f
        .ok("GET", &format!("{MAPS}?fieldSelector=metadata.name%3Dm1,metadata.namespace!%3Ddefault"), Value::Null)
        .await;
    assert!(names(&none).is_empty() && none["items"].is_array());
}

#[tokio::test]
async fn a_long_list_is_whole_in_every_form_and_compressed() {
    use std::io::Read;
    let f = Fixture::new().await;
    for i in 0..300 {
        f.config_map(&format!("m{i:03}"), &"x".repeat(2000)).await;
    }
    let mut expected: Vec<String> = (0..300).map(|i| format!("m{i:03}")).collect();
    expected.insert(0, "kube-root-ca.crt".to_owned());
    assert_eq!(names(&f.ok("GET", MAPS, Value::Null).await), expected);
    let list = f.ok("GET", &format!("{MAPS}?labelSelector=!x&fieldSelector=metadata.name!%3Dm005"), Value::Null).await;
    assert_eq!(names(&list).len(), 300);
    for form in ["Table", "PartialObjectMetadataList"] {
        let accept = format!("application/json;as={form};v=v1;g=meta.k8s.io");
        let headers = [("accept", accept.as_str()), ("accept-encoding", "gzip")];
        let response = f.raw(&f.admin, &headers, "GET", MAPS, Value::Null).await;
        assert_eq!(response.headers()["content-type"], accept.replace(";v=v1;g=meta.k8s.io", ";g=meta.k8s.io;v=v1"));
        let compressed = response.headers().get("content-encoding").is_some();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let mut text = String::new();
        if compressed {
            flate2::read::GzDecoder::new(&*bytes).read_to_string(&mut text).unwrap();
            assert!(bytes.len() < text.len() / 4);
        } else {
            text = String::from_utf8(bytes.to_vec()).unwrap();
        }
        assert_eq!(compressed, text.len() > 128 << 10, "{} bytes", text.len());
        let value: Value = serde_json::from_str(&text).unwrap();
        let (field, object) = if form == "Table" { ("rows", "/object") } else { ("items", "") };
        let shown: Vec<_> = value[field].as_array().unwrap().iter().map(|o| o.pointer(object).unwrap()).collect();
        assert!(
            shown
                .iter()
                .zip(&expected)
                .all(|(o, name)| o["metadata"]["name"] == name.as_str() && o["metadata"]["uid"].is_string())
        );
        assert_eq!(shown.len(), expected.len());
    }
    let response = f.raw(&f.admin, &[("accept-encoding", "gzip")], "GET", MAPS, Value::Null).await;
    assert_eq!(response.headers()["content-encoding"], "gzip");
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let list: Value = serde_json::from_reader(flate2::read::GzDecoder::new(&*bytes)).unwrap();
    assert_eq!(names(&list), expected);
}
