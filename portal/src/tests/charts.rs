//! Templates with Helm charts where there is no Helm, through the REST API.

use http::StatusCode;
use serde_json::json;

use crate::testing::World;

#[tokio::test]
async fn without_helm_an_environment_with_charts_is_refused_with_what_to_install() {
    let world = World::new();
    world.template("charted", "charts: [{name: web, chart: charts/web}]\n");
    world.template_file("charted", "charts/web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 0.1.0\n");
    world.template_file("charted", "charts/web/templates/a.yaml", "a: {{ .Values.a | quote }}\n");
    let body = json!({"name": "e", "template": "charted"});
    let (status, problem) = world.call("POST", "/api/v1/environments", Some(body)).await;
    assert_eq!((status, &problem["type"]), (StatusCode::UNPROCESSABLE_ENTITY, &json!("helm-missing")), "{problem}");
    let detail = problem["detail"].as_str().expect("detail");
    assert!(detail.contains("helm-of-nobody") && detail.contains("install Helm 3 or 4"), "{detail}");
    // In environments of the other kind it is not.
    world.template("other", "charts: [{name: web, chart: charts/web, kind: real}]\n");
    world.template_file("other", "charts/web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 0.1.0\n");
    world.portal.start();
    let job = world.ended(&world.create("o", "other").await).await;
    assert_eq!(job.steps.len(), 4, "{:?}", job.steps);
}

#[tokio::test]
async fn what_is_wrong_with_charts_is_told_when_they_are_published() {
    let world = World::new();
    let head = "apiVersion: vctl.dev/v1\nkind: Template\nname: t\nversion: 1.0.0\ntitle: T\n";
    for (more, file, why) in [
        ("charts: [{name: web, chart: charts/none}]\n", "charts/web/Chart.yaml", "charts come with the template"),
        ("charts: [{name: web, chart: charts/web, values: values/a.yaml}]\n", "charts/web/Chart.yaml", "values/a.yaml"),
        ("", "charts/../../etc/passwd", "no place for a file"),
        ("", "charts/web/../../x", "no place for a file"),
        ("policies: [{namespace: A_B}]\n", "charts/web/Chart.yaml", "no DNS label"),
    ] {
        let files = json!({ "template.yaml": format!("{head}{more}"), file: "a: b\n" });
        let (status, problem) = world.call("POST", "/api/v1/templates", Some(json!({ "files": files }))).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{problem}");
        assert!(problem["detail"].as_str().expect("detail").contains(why), "{why}: {problem}");
    }
}
