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
