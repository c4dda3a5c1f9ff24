use hickory_server::proto::op::Query;
use vctl_api::agent::{DnsRecord, Srv};

use super::*;

fn record(environment: &str, name: &str, addresses: &[&str]) -> DnsRecord {
    DnsRecord {
        id: format!("{environment}/{name}/a"),
        environment: environment.into(),
        name: name.into(),
        addresses: addresses.iter().map(|a| (*a).into()).collect(),
        ..DnsRecord::default()
    }
}

const REDIS: &str = "redis.default.svc.cluster.local";

/// A resolver on loopback whose clients 127.0.0.2 and 127.0.0.3 belong to environments a and b.
async fn server(tasks: &Tasks) -> (DnsServer, SocketAddr) {
    let server = DnsServer::new("cluster.local", Vec::new());
    let alias = DnsRecord { cname: REDIS.into(), ..record("a", "alias.default.svc.cluster.local", &[]) };
    let srv = Srv { port: 6379, target: REDIS.into(), priority: 0, weight: 100 };
    let srv = DnsRecord { srv: vec![srv], ..record("a", "_redis._tcp.redis.default.svc.cluster.local", &[]) };
    let upsert = vec![record("a", REDIS, &["10.96.0.7"]), record("b", REDIS, &["10.96.0.8", "fd00::8"]), alias, srv];
    server.apply(ExpectedDns { generation: 1, full: true, upsert, removed: Vec::new() });
    server.set_clients(
        [("127.0.0.2", "a"), ("127.0.0.3", "b")].map(|(ip, e)| (ip.parse().unwrap(), e.to_owned())).into(),
    );
    let address = server.bind("127.0.0.1:0".parse().unwrap(), tasks).await.unwrap();
    (server, address)
}

async fn query(to: SocketAddr, from: &str, name: &str, kind: RecordType) -> Message {
    let mut message = Message::query();
    message.add_query(Query::query(Name::from_ascii(name).unwrap(), kind));
    let socket = UdpSocket::bind((from, 0)).await.unwrap();
    socket.send_to(&message.to_vec().unwrap(), to).await.unwrap();
    let mut buffer = [0; 4096];
    let n = tokio::time::timeout(Duration::from_secs(5), socket.recv(&mut buffer)).await.unwrap().unwrap();
    Message::from_vec(&buffer[..n]).unwrap()
}

fn data(message: &Message) -> Vec<String> {
    message.answers.iter().map(|r| r.data.to_string()).collect()
}

#[tokio::test]
async fn each_environment_sees_its_own_names() {
    let tasks = Tasks::new();
    let (_, at) = server(&tasks).await;
    let ask = |from, kind| query(at, from, "Redis.default.svc.cluster.local.", kind);
    assert_eq!(data(&ask("127.0.0.2", RecordType::A).await), ["10.96.0.7"]);
    assert_eq!(data(&ask("127.0.0.3", RecordType::A).await), ["10.96.0.8"]);
    assert_eq!(data(&ask("127.0.0.3", RecordType::AAAA).await), ["fd00::8"]);
    let stranger = ask("127.0.0.9", RecordType::A).await;
    assert_eq!(stranger.metadata.response_code, ResponseCode::Refused);
    assert!(tasks.shutdown(Duration::from_secs(5)).await);
}

#[tokio::test]
async fn aliases_services_and_reverse_names() {
    let tasks = Tasks::new();
    let (_, at) = server(&tasks).await;
    let alias = query(at, "127.0.0.2", "alias.default.svc.cluster.local.", RecordType::A).await;
    assert_eq!(data(&alias), [format!("{REDIS}."), "10.96.0.7".into()]);
    let srv = query(at, "127.0.0.2", "_redis._tcp.redis.default.svc.cluster.local.", RecordType::SRV).await;
    assert_eq!(data(&srv), [format!("0 100 6379 {REDIS}.")]);
    let reverse = query(at, "127.0.0.2", "7.0.96.10.in-addr.arpa.", RecordType::PTR).await;
    assert_eq!(data(&reverse), [format!("{REDIS}.")]);
    let foreign = query(at, "127.0.0.2", "8.0.96.10.in-addr.arpa.", RecordType::PTR).await;
    assert_eq!(foreign.metadata.response_code, ResponseCode::NXDomain);
}

#[tokio::test]
async fn unknown_names_end_here_with_a_soa() {
    let tasks = Tasks::new();
    let (server, at) = server(&tasks).await;
    let unknown = query(at, "127.0.0.2", "nope.default.svc.cluster.local.", RecordType::A).await;
    assert_eq!(unknown.metadata.response_code, ResponseCode::NXDomain);
    assert_eq!(unknown.authorities.iter().map(Record::record_type).collect::<Vec<_>>(), [RecordType::SOA]);
    let parent = query(at, "127.0.0.2", "default.svc.cluster.local.", RecordType::A).await;
    assert_eq!((parent.metadata.response_code, parent.answers.len()), (ResponseCode::NoError, 0));
    let no_data = query(at, "127.0.0.2", &format!("{REDIS}."), RecordType::AAAA).await;
    assert_eq!((no_data.metadata.response_code, no_data.answers.len()), (ResponseCode::NoError, 0));
    let outside = query(at, "127.0.0.2", "example.org.", RecordType::A).await;
    assert_eq!(outside.metadata.response_code, ResponseCode::NXDomain);
    server.apply(ExpectedDns { generation: 2, full: false, upsert: Vec::new(), removed: vec![format!("a/{REDIS}/a")] });
    let gone = query(at, "127.0.0.2", "7.0.96.10.in-addr.arpa.", RecordType::PTR).await;
    assert_eq!(gone.metadata.response_code, ResponseCode::NXDomain);
}
