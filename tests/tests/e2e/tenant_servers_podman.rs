//! Servers that tenants run in pods and that the virtual cluster calls: webhooks, aggregated APIs, and what is behind `proxy`.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use vctl_runtime::pki::{Authority, Validity};
use vctl_tests::{background::Background, image, kubectl::Kubectl, platform::Platform, platform::Workers, wait};

use crate::containers_podman::ready;

const LIMIT: Duration = Duration::from_mins(1);

/// A platform with an environment `dev` in which the server's certificate is a Secret; the authority to believe, in base64.
fn platform(name: &str) -> Result<(Platform, Kubectl, String)> {
    let platform = Platform::start(Workers::Podman)?;
    image::build(&platform.worker(), &["tenant-server"])?;
    platform.create("dev", "blank", &[])?;
    let k = platform.kubectl("1.33", "dev")?;
    let validity = Validity::from_now(jiff::Timestamp::now(), Duration::from_hours(1));
    let authority = Authority::generate("tenant", validity)?;
    let identity = authority.server(&[format!("{name}.default.svc")], validity)?;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "tls" }, "type": "kubernetes.io/tls",
        "stringData": { "tls.crt": identity.certificate_pem, "tls.key": identity.key_pem },
    });
    k.apply(&secret.to_string())?;
    Ok((platform, k, STANDARD.encode(authority.certificate_pem())))
}

/// The pod of the server and its Service, both of this name.
fn server(name: &str, variables: Value) -> String {
    json!({ "apiVersion": "v1", "kind": "List", "items": [
        {
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "labels": { "app": name } },
            "spec": {
                "terminationGracePeriodSeconds": 1,
                "containers": [{
                    "name": "main", "image": "localhost/tenant-server:latest", "imagePullPolicy": "IfNotPresent", "env": variables,
                    "ports": [{ "containerPort": 8080, "name": "plain" }, { "containerPort": 8443, "name": "secure" }],
                    "volumeMounts": [{ "name": "tls", "mountPath": "/tls" }],
                    "readinessProbe": { "httpGet": { "path": "/", "port": 8443, "scheme": "HTTPS" }, "periodSeconds": 1, "timeoutSeconds": 5 },
                }],
                "volumes": [{ "name": "tls", "secret": { "secretName": "tls" } }],
            },
        },
        {
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": name },
            "spec": { "selector": { "app": name }, "ports": [
                { "name": "https", "port": 443, "targetPort": "secure" }, { "name": "http", "port": 80, "targetPort": "plain" },
            ] },
        },
    ] })
    .to_string()
}

fn webhooks(bundle: &str, policy: &str) -> String {
    let hook = |name: &str, path: &str| {
        json!([{
            "name": format!("{name}.example.com"), "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": policy,
            "clientConfig": { "caBundle": bundle, "service": { "namespace": "default", "name": "hooks", "path": path } },
            "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"], "scope": "Namespaced" }],
            "timeoutSeconds": 5,
        }])
    };
    let group = "admissionregistration.k8s.io/v1";
    json!({ "apiVersion": "v1", "kind": "List", "items": [
        { "apiVersion": group, "kind": "MutatingWebhookConfiguration", "metadata": { "name": "m" }, "webhooks": hook("m", "/mutate") },
        { "apiVersion": group, "kind": "ValidatingWebhookConfiguration", "metadata": { "name": "v" }, "webhooks": hook("v", "/validate") },
    ] })
    .to_string()
}

#[test]
fn podman_webhooks_in_pods_change_and_refuse() -> Result<()> {
    let (_platform, k, bundle) = platform("hooks")?;
    k.apply(&server("hooks", json!([])))?;
    ready(&k, "hooks")?;
    k.apply(&webhooks(&bundle, "Fail"))?;
    k.ok(&["create", "configmap", "fine"])?;
    let label = ["get", "configmap", "fine", "-o", "jsonpath={.metadata.labels.seen-by}"];
    assert_eq!(k.ok(&label)?, "tenant-server");
    let refused = k.run(&["create", "configmap", "forbidden"])?.refused()?;
    ensure!(
        refused.contains("admission webhook \"v.example.com\" denied the request: nobody may have that name"),
        "{refused}"
    );
    let log = k.ok(&["logs", "hooks"])?;
    ensure!(log.contains("mutate \"forbidden\"\nvalidate \"forbidden\""), "{log}");

    // Its pod is gone: what the failure policy says.
    k.ok(&["delete", "pod", "hooks"])?;
    let failed = k.run(&["create", "configmap", "later"])?.refused()?;
    ensure!(
        failed.contains("failed calling webhook \"m.example.com\"") && failed.contains("no endpoints available"),
        "{failed}"
    );
    k.apply(&webhooks(&bundle, "Ignore"))?;
    k.ok(&["create", "configmap", "later"])?;
    k.apply(&server("hooks", json!([])))?;
    ready(&k, "hooks")?;
    // A certificate of another authority is not believed.
    let other = Authority::generate("other", Validity::from_now(jiff::Timestamp::now(), Duration::from_hours(1)))?;
    k.apply(&webhooks(&STANDARD.encode(other.certificate_pem()), "Fail"))?;
    let failed = k.run(&["create", "configmap", "never"])?.refused()?;
    ensure!(failed.contains("tls:") || failed.contains("certificate"), "{failed}");
    Ok(())
}

const AGGREGATION: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: weather-reads-authentication, namespace: kube-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: extension-apiserver-authentication-reader}
subjects: [{kind: ServiceAccount, name: default, namespace: default}]
";

#[test]
fn podman_aggregated_api_in_a_pod_comes_and_goes() -> Result<()> {
    let (_platform, k, bundle) = platform("weather")?;
    k.apply(AGGREGATION)?;
    let service = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": { "name": "v1.weather.example.com" },
        "spec": { "group": "weather.example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 10,
            "caBundle": bundle, "service": { "namespace": "default", "name": "weather" } },
    });
    k.apply(&service.to_string())?;
    let available = |status: &str| {
        k.ok(&[
            "wait",
            &format!("--for=condition=Available={status}"),
            "apiservice/v1.weather.example.com",
            "--timeout=60s",
        ])
        .with_context(|| k.ok(&["get", "apiservice", "v1.weather.example.com", "-o", "yaml"]).unwrap_or_default())
        .with_context(|| k.run(&["logs", "weather"]).map(|o| o.stdout).unwrap_or_default())
    };
    available("False")?;
    let variables = json!([{ "name": "AGGREGATED", "value": "1" }]);
    k.apply(&server("weather", variables.clone()))?;
    ready(&k, "weather")?;
    available("True")?;
    let asked_by = ["get", "forecasts.weather.example.com", "today", "-o", "jsonpath={.spec.askedBy}"];
    assert_eq!(k.ok(&asked_by)?, "kubernetes-admin");
    let table = k.ok(&["get", "forecasts"])?;
    ensure!(table.contains("today"), "{table}");
    ensure!(k.ok(&["api-resources", "--api-group=weather.example.com"])?.contains("forecasts"));
    // Who comes by another way, without the cluster's certificate, is nobody, whatever the headers say.
    let proxied = "/api/v1/namespaces/default/services/https:weather:https/proxy/apis/weather.example.com/v1";
    let refused = raw(&k, proxied)?.refused()?;
    ensure!(
        refused.contains("certificate") || refused.contains("Unauthorized") || refused.contains("provide credentials"),
        "{refused}"
    );

    k.ok(&["delete", "pod", "weather"])?;
    available("False")?;
    let gone = k.run(&asked_by)?.refused()?;
    ensure!(gone.contains("ServiceUnavailable") || gone.contains("currently unable to handle the request"), "{gone}");
    k.apply(&server("weather", variables))?;
    ready(&k, "weather")?;
    available("True")?;
    assert_eq!(k.ok(&asked_by)?, "kubernetes-admin");
    Ok(())
}

/// `kubectl get --raw` of a path of the cluster.
fn raw(k: &Kubectl, path: &str) -> Result<vctl_tests::kubectl::Output> {
    let url = k.ok(&["config", "view", "--raw", "-o", "jsonpath={.clusters[0].cluster.server}"])?;
    let prefix = url.splitn(4, '/').nth(3).map(|p| format!("/{p}")).unwrap_or_default();
    k.run(&["get", "--raw", &format!("{prefix}{path}")])
}

#[test]
fn podman_pods_and_services_are_reached_by_proxy() -> Result<()> {
    let (platform, k, _) = platform("web")?;
    k.apply(&server("web", json!([])))?;
    ready(&k, "web")?;
    let get = |path: &str| -> Result<Value> { Ok(serde_json::from_str(&raw(&k, path)?.ok()?)?) };
    let base = "/api/v1/namespaces/default";
    // By every way that upstream's conformance test takes.
    for way in [
        "services/web:http/proxy",
        "services/web:80/proxy",
        "services/http:web:http/proxy",
        "services/https:web:https/proxy",
        "services/https:web:443/proxy",
        "pods/web/proxy",
        "pods/web:8080/proxy",
        "pods/http:web:8080/proxy",
        "pods/https:web:8443/proxy",
    ] {
        let echoed = get(&format!("{base}/{way}/some/path%20here?q=1&q=2"))?;
        assert_eq!((&echoed["method"], &echoed["uri"]), (&json!("GET"), &json!("/some/path%20here?q=1&q=2")), "{way}");
        ensure!(echoed["headers"]["authorization"].is_null(), "{echoed}");
        let by = echoed["headers"]["x-forwarded-uri"].as_str().unwrap_or_default();
        ensure!(by.ends_with(&format!("{base}/{way}/some/path%20here")), "{echoed}");
    }
    for (path, why) in [
        ("pods/nobody/proxy/", "pods \"nobody\" not found"),
        ("services/nobody/proxy/", "services \"nobody\" not found"),
        ("services/web:81/proxy/", "no service port 81 found for service \"web\""),
        ("services/web:other/proxy/", "no endpoints available for service \"web:other\""),
        ("pods/web:1/proxy/", "error trying to reach service: "),
        ("pods/ftp:web:1/proxy/", "invalid pod request \"ftp:web:1\""),
    ] {
        let refused = raw(&k, &format!("{base}/{path}"))?.refused()?;
        ensure!(refused.contains(why), "{path}: {refused}");
    }

    // All methods, redirects and other protocols, over kubectl proxy.
    let home = platform.scratch();
    let mut proxy = Background::start(k.command(&["proxy", "--port=0"]), "proxy", home)?;
    let printed = proxy.until_printed("Starting to serve on ", LIMIT)?;
    let address = printed.trim().rsplit(' ').next().context("an address")?.to_owned();
    let url = k.ok(&["config", "view", "--raw", "-o", "jsonpath={.clusters[0].cluster.server}"])?;
    ensure!(url.contains("/clusters/dev"), "{url}");
    let at = |path: &str| format!("{base}/pods/web:8080/proxy{path}");
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        let answer = http(&address, &format!("{method} {} HTTP/1.1", at("/x")), "content-length: 5\r\n", "hello")?;
        ensure!(answer.starts_with("HTTP/1.1 200"), "{method}: {answer}");
        ensure!(
            answer.contains(&format!("\"method\":\"{method}\"")) && answer.contains("\"body\":\"hello\""),
            "{answer}"
        );
    }
    let location = |answer: &str| {
        let line = answer.lines().find(|l| l.to_ascii_lowercase().starts_with("location: "));
        line.map(|l| l[10..].trim().to_owned()).unwrap_or_default()
    };
    let moved = http(&address, &format!("GET {} HTTP/1.1", at("")), "", "")?;
    ensure!(moved.starts_with("HTTP/1.1 301") && location(&moved).ends_with("/proxy/"), "{moved}");
    let redirected = http(&address, &format!("GET {} HTTP/1.1", at("/redirect")), "", "")?;
    ensure!(redirected.starts_with("HTTP/1.1 307"), "it is not followed: {redirected}");
    ensure!(location(&redirected).ends_with("/pods/web:8080/proxy/echo?from=redirect"), "{redirected}");
    let away = http(&address, &format!("GET {} HTTP/1.1", at("/away")), "", "")?;
    assert_eq!(location(&away), "https://elsewhere.example/x");
    talk(&address, &at("/talk"))?;

    // RBAC is that of the subresource.
    k.ok(&["create", "role", "reader", "--verb=get", "--resource=pods"])?;
    k.ok(&["create", "rolebinding", "reader", "--role=reader", "--user=jane"])?;
    let mut as_jane = vec!["get", "--raw"];
    let prefix = "/clusters/dev";
    let path = format!("{prefix}{}", at("/"));
    as_jane.extend([path.as_str(), "--as=jane"]);
    let refused = k.run(&as_jane)?.refused()?;
    ensure!(refused.contains("cannot get resource \"pods/proxy\" in API group \"\""), "{refused}");
    k.ok(&["create", "role", "proxy", "--verb=get", "--resource=pods/proxy"])?;
    k.ok(&["create", "rolebinding", "proxy", "--role=proxy", "--user=jane"])?;
    let echoed: Value = serde_json::from_str(&k.run(&as_jane)?.ok()?)?;
    ensure!(echoed["headers"]["impersonate-user"].is_null(), "{echoed}");
    Ok(())
}

/// One request to kubectl proxy, and the answer as it stands.
fn http(address: &str, line: &str, headers: &str, body: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    write!(stream, "{line}\r\nhost: {address}\r\nconnection: close\r\n{headers}\r\n{body}")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Says something over a websocket and hears it.
fn talk(address: &str, path: &str) -> Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
         sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.extend(byte);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    ensure!(head.starts_with("HTTP/1.1 101") && head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{head}");
    // A text frame, masked with zeros; the answer is not masked.
    stream.write_all(&[&[0x81, 0x85, 0, 0, 0, 0][..], b"hello"].concat())?;
    let mut answer = [0; 7];
    stream.read_exact(&mut answer)?;
    assert_eq!(&answer, b"\x81\x05hello");
    Ok(())
}

#[test]
fn podman_probes_do_not_reach_the_worker() -> Result<()> {
    let platform = crate::containers_podman::platform()?;
    platform.create("dev", "blank", &[])?;
    let k = platform.kubectl("1.33", "dev")?;
    // The worker's own resolver listens on its loopback address; a pod's loopback is its own.
    let pod = |name: &str, more: Value| {
        let mut pod: Value = serde_json::from_str(&crate::containers_podman::pod(name, "exec sleep 100000"))?;
        for (key, value) in more.as_object().into_iter().flatten() {
            pod["spec"][key] = value.clone();
        }
        anyhow::Ok(pod)
    };
    let netns = platform.netns().context("the worker's network namespace")?.to_owned();
    let mut listener = std::process::Command::new("ip");
    listener.args(["netns", "exec", &netns, "busybox", "nc", "-lk", "-p", "7999", "-s", "127.0.0.1", "-e", "true"]);
    let _listener = Background::start(listener, "listener", platform.scratch())?;
    let mut probing = pod("probing", json!({}))?;
    probing["spec"]["containers"][0]["readinessProbe"] =
        json!({ "tcpSocket": { "host": "127.0.0.1", "port": 7999 }, "periodSeconds": 1, "timeoutSeconds": 5 });
    k.apply(&probing.to_string())?;
    wait::until("the probe fails", LIMIT, || {
        let events = k.ok(&["describe", "pod", "probing"]).map_err(|e| format!("{e:#}"))?;
        if events.contains("Readiness probe failed: dial tcp 127.0.0.1:7999") { Ok(()) } else { Err(events) }
    })?;
    // The process and IPC namespaces of the worker are closed too, and that is said.
    for what in ["hostPID", "hostIPC"] {
        let name = what.to_ascii_lowercase();
        k.apply(&pod(&name, json!({ what: true }))?.to_string())?;
        wait::until("it is said why it does not start", LIMIT, || {
            let state = "jsonpath={.status.containerStatuses[0].state.waiting}";
            let said = k.ok(&["get", "pod", &name, "-o", state]).map_err(|e| format!("{e:#}"))?;
            let told = said.contains("CreateContainerConfigError") && said.contains(&format!("{what} is not allowed"));
            if told { Ok(()) } else { Err(said) }
        })?;
    }
    Ok(())
}
