//! Clients that set the whole path of a request, and so lose the `/clusters/NAME` of the server's address: their credentials say which
//! environment they mean.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use vctl_tests::{
    kubectl::Kubectl,
    platform::{Platform, Workers},
};

/// Origin: "[sig-cli] Kubectl client Proxy server should support proxy with --port 0 [Conformance]".
fn proxied(k: &Kubectl) -> Result<()> {
    let mut child = k.command(&["proxy", "--port=0"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let mut ask = || -> Result<String> {
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().context("piped")?).read_line(&mut line)?;
        let address = line.trim().strip_prefix("Starting to serve on ").with_context(|| line.clone())?;
        let mut stream = std::net::TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        stream.write_all(b"GET /api/ HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    let answer = ask();
    child.kill()?;
    child.wait()?;
    let answer = answer?;
    ensure!(answer.contains("200 OK") && answer.contains(r#""kind":"APIVersions""#), "{answer}");
    Ok(())
}

#[test]
fn credentials_say_which_environment_is_meant() -> Result<()> {
    let platform = Platform::start(Workers::Simulated)?;
    platform.create("left", "blank", &[])?;
    platform.create("right", "blank", &[])?;
    for version in ["1.28", "1.33"] {
        let k = platform.kubectl(version, "left")?;
        assert_eq!(k.ok(&["get", "--raw", "/livez"])?, "ok");
        proxied(&k).with_context(|| format!("kubectl {version}"))?;
    }
    let k = platform.kubectl("1.33", "left")?;
    k.ok(&["create", "namespace", "only-left"])?;
    assert!(k.ok(&["get", "--raw", "/api/v1/namespaces"])?.contains("only-left"));
    let right = platform.kubectl("1.33", "right")?;
    assert!(!right.ok(&["get", "--raw", "/api/v1/namespaces"])?.contains("only-left"));
    // A path that names another environment is that environment's, which does not know these credentials.
    let refused = k.run(&["get", "--raw", "/clusters/right/api/v1/namespaces"])?.refused()?;
    ensure!(refused.contains("Unauthorized") || refused.contains("must be logged in"), "{refused}");
    // Tokens: without the certificate, from a kubeconfig that has none.
    let token = k.ok(&["create", "token", "default", "-n", "only-left"])?;
    let server = k.ok(&["config", "view", "--raw", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}"])?;
    let host = server.strip_suffix("/clusters/left").context("the address of the cluster")?;
    let ca = k.ok(&[
        "config",
        "view",
        "--raw",
        "--minify",
        "-o",
        "jsonpath={.clusters[0].cluster.certificate-authority-data}",
    ])?;
    let file = platform.data_dir().join("token.kubeconfig");
    std::fs::write(
        &file,
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: x\ncontexts: [{{name: x, context: {{cluster: x, user: x}}}}]\n\
             clusters: [{{name: x, cluster: {{server: '{host}', certificate-authority-data: {ca}}}}}]\n\
             users: [{{name: x, user: {{token: {}}}}}]\n",
            token.trim()
        ),
    )?;
    let by_token = Kubectl::new("1.33", &file, &platform.data_dir().join("token-home"))?;
    let who = by_token.ok(&["auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"])?;
    assert_eq!(who, "system:serviceaccount:only-left:default");
    Ok(())
}
