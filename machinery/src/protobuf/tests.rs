use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    catalog::Catalog,
    schema::{FieldType, graph},
};

/// An object of the type with every field that protobuf has, a few levels deep.
fn sample(ty: &Type, depth: usize) -> Value {
    let mut object = Map::new();
    for field in ty.fields.iter().filter(|f| !f.numbers.is_empty()) {
        if let Some(value) = value(&field.kind, depth) {
            object.insert(field.name.into(), value);
        }
    }
    Value::Object(object)
}

fn value(kind: &FieldType, depth: usize) -> Option<Value> {
    Some(match kind {
        FieldType::String => "text".into(),
        FieldType::Int32 => (-7).into(),
        FieldType::Int64 => 5_000_000_000_i64.into(),
        FieldType::Number => 1.5.into(),
        FieldType::Bool => true.into(),
        FieldType::Bytes => "AAEC".into(),
        FieldType::Quantity => "500m".into(),
        FieldType::Time => "2026-11-21T05:00:00Z".into(),
        FieldType::MicroTime => "2026-11-21T05:00:00.000001Z".into(),
        FieldType::IntOrString => "25%".into(),
        FieldType::RawExtension => json!({ "any": ["thing"] }),
        FieldType::FieldsV1 => json!({ "f:metadata": {} }),
        FieldType::Json => json!([1, "two", null]),
        FieldType::SchemaOrBool => json!({ "type": "string" }),
        FieldType::SchemaOrArray => json!([{ "type": "string" }, { "type": "integer" }]),
        FieldType::SchemaOrStrings => json!(["a", "b"]),
        FieldType::Struct(_) if depth == 0 => return None,
        FieldType::Struct(at) => sample(graph().get(*at), depth - 1),
        FieldType::List(of) => Value::Array(vec![value(of, depth)?]),
        FieldType::Map(of) => json!({ "key": value(of, depth)? }),
        FieldType::Any => return None,
    })
}

#[test]
fn every_kind_survives_the_round_trip() {
    let mut kinds = 0;
    for row in Catalog::builtin().rows() {
        for kind in [&row.kind, &row.list_kind] {
            let Some(ty) = schema::of(&row.group, &row.version, kind) else { continue };
            let mut object = sample(ty, 5);
            object["apiVersion"] = row.api_version().into();
            object["kind"] = kind.as_str().into();
            let bytes = encode(&object).unwrap();
            assert_eq!(decode(&bytes).unwrap(), object, "{}", ty.name);
            kinds += 1;
        }
    }
    assert!(kinds > 100, "{kinds}");
}

#[test]
fn kinds_without_rows_too() {
    for (api_version, kind) in [
        ("v1", "Status"),
        ("v1", "DeleteOptions"),
        ("apps/v1", "DeleteOptions"),
        ("policy/v1", "Eviction"),
        ("v1", "Binding"),
        ("autoscaling/v1", "Scale"),
        ("authentication.k8s.io/v1", "TokenRequest"),
        ("meta.k8s.io/v1", "PartialObjectMetadataList"),
    ] {
        let mut object = sample(of(api_version, kind).unwrap(), 4);
        object["apiVersion"] = api_version.into();
        object["kind"] = kind.into();
        assert_eq!(decode(&encode(&object).unwrap()).unwrap(), object, "{kind}");
    }
}

#[test]
fn zeros_are_there_as_in_go() {
    let deployment = json!({ "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "d" },
        "spec": { "replicas": 0, "minReadySeconds": 0, "paused": false, "selector": {}, "template": {
            "spec": { "restartPolicy": "", "containers": [{ "name": "", "image": "" }] } } } });
    let back = decode(&encode(&deployment).unwrap()).unwrap();
    assert_eq!(
        back["spec"],
        json!({ "replicas": 0, "selector": {}, "template": { "spec": { "containers": [{ "name": "" }] } } })
    );
}

/// Bytes as client-go writes them for a Namespace "x": an empty creation time, spec and status.
#[test]
fn bytes_of_a_typed_client() {
    let mut meta = Vec::new();
    wire::put_bytes(&mut meta, 1, b"x");
    for number in [2, 3, 4, 5, 6] {
        wire::put_bytes(&mut meta, number, b"");
    }
    wire::put_integer(&mut meta, 7, 0);
    wire::put_bytes(&mut meta, 8, b"");
    let mut raw = Vec::new();
    wire::put_bytes(&mut raw, 1, &meta);
    wire::put_bytes(&mut raw, 2, b"");
    wire::put_bytes(&mut raw, 3, &[0x0a, 0]);
    let mut body = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09Namespace".to_vec();
    wire::put_bytes(&mut body, 2, &raw);
    body.extend(b"\x1a\x00\x22\x00");
    assert_eq!(
        decode(&body).unwrap(),
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "x" }, "spec": {}, "status": {} })
    );
}

#[test]
fn bad_bodies_are_told() {
    assert!(decode(b"").unwrap_err().contains("prefix"));
    assert!(decode(b"k8s\0\x0a\xff").unwrap_err().contains("cut short"));
    assert!(decode(b"k8s\0\x0a\x06\x0a\x02v1\x12\x00").unwrap_err().contains("no kind"));
    assert!(encode(&json!({ "apiVersion": "example.com/v1", "kind": "Thing" })).is_none());
}

#[test]
fn deep_schemas_do_not_exhaust_the_stack() {
    let mut props = Vec::new();
    for _ in 0..50_000 {
        let mut outer = Vec::with_capacity(props.len() + 8);
        // `not`, the schema's own recursion
        wire::put_bytes(&mut outer, 28, &props);
        props = outer;
        if props.len() > 300_000 {
            break;
        }
    }
    let ty = graph().get(graph().named("apiextensions.v1.JSONSchemaProps").unwrap());
    let not = ty.field("not").unwrap().numbers[0];
    assert_eq!(not, 28);
    assert_eq!(read::message(ty, &[], &props, &mut Map::new(), 0).unwrap_err(), "exceeded max depth");
}

#[test]
fn frames_of_a_watch() {
    let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "c" } });
    let frame = watch_frame("ADDED", &object).unwrap();
    let (length, body) = frame.split_at(4);
    assert_eq!(u32::from_be_bytes(length.try_into().unwrap()) as usize, body.len());
    let fields: Vec<_> = wire::entries(body).map(Result::unwrap).collect();
    assert_eq!(fields[0].1.text().unwrap(), "ADDED");
    let raw = wire::entries(fields[1].1.bytes().unwrap()).next().unwrap().unwrap().1.bytes().unwrap();
    assert_eq!(decode(raw).unwrap(), object);
}

proptest! {
    #[test]
    fn no_bytes_panic(kind in 0..200_usize, raw in proptest::collection::vec(any::<u8>(), 0..400)) {
        let rows = Catalog::builtin().rows();
        let row = &rows[kind % rows.len()];
        let mut meta = Vec::new();
        wire::put_bytes(&mut meta, 1, row.api_version().as_bytes());
        wire::put_bytes(&mut meta, 2, row.kind.as_bytes());
        let mut body = MAGIC.to_vec();
        wire::put_bytes(&mut body, 1, &meta);
        wire::put_bytes(&mut body, 2, &raw);
        let _ = decode(&body);
        let _ = decode(&raw);
    }

    #[test]
    fn no_cut_or_flip_panics(kind in 0..200_usize, at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let rows = Catalog::builtin().rows();
        let row = &rows[kind % rows.len()];
        let mut object = sample(schema::of(&row.group, &row.version, &row.kind).unwrap(), 3);
        object["apiVersion"] = row.api_version().into();
        object["kind"] = row.kind.as_str().into();
        let mut bytes = encode(&object).unwrap();
        let at = at.index(bytes.len());
        let _ = decode(&bytes[..at]);
        bytes[at] = byte;
        let _ = decode(&bytes);
    }
}
