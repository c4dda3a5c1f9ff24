//! The resolver of a worker's pods.
//!
//! Who asks decides what is answered: a client's address belongs to an environment, and only that environment's names exist for it. A
//! name under the cluster domain that is not known is NXDOMAIN and never asked elsewhere, so that internal names do not leak. Other
//! names go to the forwarders; without any they are NXDOMAIN at once. Clients that belong to no environment are refused.

mod zones;

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use hickory_server::{
    Server,
    net::runtime::Time,
    proto::{
        op::{Header, HeaderCounts, Message, MessageType, Metadata, OpCode, ResponseCode},
        rr::{
            Name, RData, Record, RecordType,
            rdata::{A, AAAA, CNAME, PTR, SOA, SRV},
        },
    },
    server::{Request, RequestHandler, ResponseHandler, ResponseInfo},
    zone_handler::MessageResponseBuilder,
};
use tokio::net::{TcpListener, UdpSocket};
use vctl_api::agent::ExpectedDns;
use vctl_runtime::tasks::Tasks;

use self::zones::{Found, Zones};

/// How long clients may keep an answer, in seconds. Short: endpoints come and go.
const TTL: u32 = 5;
/// How long a TCP client may be silent.
const TCP_LIMIT: Duration = Duration::from_secs(10);
/// How long a forwarder may take.
const FORWARD_LIMIT: Duration = Duration::from_secs(2);
/// Longest chain of aliases.
const ALIASES: usize = 8;

/// The resolver cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum DnsError {
    /// The address is taken, or not this machine's.
    #[error(
        "cannot listen for DNS on {address}: {why}; end the service that holds the address or give the worker another one"
    )]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The system's message.
        why: std::io::Error,
    },
}

struct Shared {
    domain: String,
    forwarders: Vec<SocketAddr>,
    zones: RwLock<Zones>,
    clients: RwLock<Arc<HashMap<IpAddr, String>>>,
    serial: AtomicU32,
}

/// The resolver. Clones are the same one.
#[derive(Clone)]
pub struct DnsServer {
    shared: Arc<Shared>,
}

impl DnsServer {
    /// A resolver for names under `domain` (`cluster.local`); other names go to the forwarders, in their order.
    pub fn new(domain: &str, forwarders: Vec<SocketAddr>) -> Self {
        Self {
            shared: Arc::new(Shared {
                domain: domain.trim_end_matches('.').to_ascii_lowercase(),
                forwarders,
                zones: RwLock::default(),
                clients: RwLock::default(),
                serial: AtomicU32::new(1),
            }),
        }
    }

    /// Listens on UDP and TCP until the tasks are stopped. Returns the address, also when port 0 was asked for.
    ///
    /// # Errors
    /// [`DnsError::Bind`].
    pub async fn bind(&self, address: SocketAddr, tasks: &Tasks) -> Result<SocketAddr, DnsError> {
        let failed = |why| DnsError::Bind { address, why };
        let udp = UdpSocket::bind(address).await.map_err(failed)?;
        let bound = udp.local_addr().map_err(failed)?;
        let tcp = TcpListener::bind(bound).await.map_err(failed)?;
        let mut server = Server::new(Handler(self.shared.clone()));
        server.register_socket(udp);
        server.register_listener(tcp, TCP_LIMIT, 4096);
        let stop = tasks.clone();
        tasks.spawn("dns", async move {
            stop.cancelled().await;
            if let Err(e) = server.shutdown_gracefully().await {
                tracing::debug!(error = %e, "stopping the resolver");
            }
        });
        Ok(bound)
    }

    /// Applies records; a full state replaces all.
    pub fn apply(&self, expected: ExpectedDns) {
        self.shared.zones.write().unwrap_or_else(PoisonError::into_inner).apply(expected);
        self.shared.serial.fetch_add(1, Ordering::Relaxed);
    }

    /// Replaces the map from client address to environment.
    pub fn set_clients(&self, clients: HashMap<IpAddr, String>) {
        *self.shared.clients.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(clients);
    }
}

struct Handler(Arc<Shared>);

/// What to send back.
struct Answer {
    code: ResponseCode,
    authoritative: bool,
    records: Vec<Record>,
    soa: Option<Record>,
}

impl Answer {
    fn code(code: ResponseCode) -> Self {
        Self { code, authoritative: false, records: Vec::new(), soa: None }
    }
}

impl Handler {
    fn soa(&self) -> Option<Record> {
        let zone = Name::from_ascii(format!("{}.", self.0.domain)).ok()?;
        let server = Name::from_ascii(format!("ns.dns.{}.", self.0.domain)).ok()?;
        let contact = Name::from_ascii(format!("hostmaster.{}.", self.0.domain)).ok()?;
        let serial = self.0.serial.load(Ordering::Relaxed);
        Some(Record::from_rdata(zone, TTL, RData::SOA(SOA::new(server, contact, serial, 7200, 1800, 86400, TTL))))
    }

    fn local(&self, environment: &str, asked: &str, kind: RecordType) -> Answer {
        let zones = self.0.zones.read().unwrap_or_else(PoisonError::into_inner);
        let mut records = Vec::new();
        let mut name = asked.to_owned();
        let mut known = false;
        for _ in 0..ALIASES {
            let found = zones.find(environment, &name);
            known |= !matches!(found, Found::Nothing);
            let Found::Records(here) = found else { break };
            let Ok(owner) = Name::from_utf8(format!("{name}.")) else { break };
            let mut add = |data: RData| records.push(Record::from_rdata(owner.clone(), TTL, data));
            let mut alias = None;
            for record in here {
                for ip in record.addresses.iter().filter_map(|a| a.parse::<IpAddr>().ok()) {
                    match (ip, kind) {
                        (IpAddr::V4(ip), RecordType::A | RecordType::ANY) => add(RData::A(A(ip))),
                        (IpAddr::V6(ip), RecordType::AAAA | RecordType::ANY) => add(RData::AAAA(AAAA(ip))),
                        _ => {}
                    }
                }
                if matches!(kind, RecordType::SRV | RecordType::ANY) {
                    for srv in &record.srv {
                        if let Ok(target) = Name::from_utf8(format!("{}.", srv.target.trim_end_matches('.'))) {
                            add(RData::SRV(SRV::new(srv.priority as u16, srv.weight as u16, srv.port as u16, target)));
                        }
                    }
                }
                if !record.cname.is_empty() {
                    let target = record.cname.trim_end_matches('.').to_ascii_lowercase();
                    if let Ok(canonical) = Name::from_utf8(format!("{target}.")) {
                        add(RData::CNAME(CNAME(canonical)));
                        alias = (kind != RecordType::CNAME).then_some(target);
                    }
                }
            }
            match alias {
                Some(target) => name = target,
                None => break,
            }
        }
        // Clients take the first address: who comes first changes from answer to answer.
        if records.len() > 1
            && matches!(kind, RecordType::A | RecordType::AAAA)
            && !records.iter().any(|r| r.record_type() == RecordType::CNAME)
        {
            let turn = self.0.serial.fetch_add(1, Ordering::Relaxed) as usize % records.len();
            records.rotate_left(turn);
        }
        let soa = if records.is_empty() { self.soa() } else { None };
        Answer {
            code: if known { ResponseCode::NoError } else { ResponseCode::NXDomain },
            authoritative: true,
            records,
            soa,
        }
    }

    /// Reverse names of this environment's addresses; none when the address is not its own.
    fn reverse(&self, environment: &str, name: &str) -> Option<Answer> {
        let ip = zones::address_of(name)?;
        let zones = self.0.zones.read().unwrap_or_else(PoisonError::into_inner);
        let owner = Name::from_ascii(format!("{name}.")).ok()?;
        let records: Vec<Record> = zones
            .names_of(environment, ip)
            .filter_map(|n| Name::from_utf8(format!("{n}.")).ok())
            .map(|n| Record::from_rdata(owner.clone(), TTL, RData::PTR(PTR(n))))
            .collect();
        (!records.is_empty()).then_some(Answer { code: ResponseCode::NoError, authoritative: true, records, soa: None })
    }

    async fn forward(&self, request: &Request) -> Answer {
        for forwarder in &self.0.forwarders {
            match tokio::time::timeout(FORWARD_LIMIT, ask(*forwarder, request.as_slice())).await {
                Ok(Ok(message)) => {
                    return Answer {
                        code: message.metadata.response_code,
                        authoritative: false,
                        records: message.answers.clone(),
                        soa: None,
                    };
                }
                Ok(Err(e)) => tracing::debug!(%forwarder, error = %e, "forwarding a name"),
                Err(_) => tracing::debug!(%forwarder, "forwarding a name took too long"),
            }
        }
        Answer::code(if self.0.forwarders.is_empty() { ResponseCode::NXDomain } else { ResponseCode::ServFail })
    }

    async fn answer(&self, request: &Request) -> Answer {
        let Ok(info) = request.request_info() else { return Answer::code(ResponseCode::FormErr) };
        if info.metadata.op_code != OpCode::Query || info.metadata.message_type != MessageType::Query {
            return Answer::code(ResponseCode::NotImp);
        }
        let clients = self.0.clients.read().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(environment) = clients.get(&info.src.ip().to_canonical()) else {
            return Answer::code(ResponseCode::Refused);
        };
        let name = info.query.name().to_string().trim_end_matches('.').to_ascii_lowercase();
        let kind = info.query.query_type();
        if name == self.0.domain || name.ends_with(&format!(".{}", self.0.domain)) {
            return self.local(environment, &name, kind);
        }
        if kind == RecordType::PTR
            && let Some(answer) = self.reverse(environment, &name)
        {
            return answer;
        }
        self.forward(request).await
    }
}

/// Asks one forwarder, over UDP.
async fn ask(forwarder: SocketAddr, query: &[u8]) -> std::io::Result<Message> {
    let any: SocketAddr = if forwarder.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(forwarder).await?;
    socket.send(query).await?;
    let mut buffer = vec![0; 65_535];
    loop {
        let n = socket.recv(&mut buffer).await?;
        // An answer to something else is not ours.
        if n >= 2 && buffer[..2] == query[..2] {
            return Message::from_vec(&buffer[..n]).map_err(std::io::Error::other);
        }
    }
}

#[async_trait::async_trait]
impl RequestHandler for Handler {
    async fn handle_request<R: ResponseHandler, T: Time>(&self, request: &Request, mut response: R) -> ResponseInfo {
        let answer = self.answer(request).await;
        let mut metadata = Metadata::response_from_request(&request.metadata);
        metadata.response_code = answer.code;
        metadata.authoritative = answer.authoritative;
        metadata.recursion_available = true;
        let message =
            MessageResponseBuilder::from_message_request(request).build(metadata, &answer.records, [], &answer.soa, []);
        match response.send_response(message).await {
            Ok(info) => info,
            Err(e) => {
                tracing::debug!(error = %e, "sending a DNS answer");
                metadata.response_code = ResponseCode::ServFail;
                Header { metadata, counts: HeaderCounts::default() }.into()
            }
        }
    }
}

#[cfg(test)]
mod tests;
