//! What a client meets around the API: reflection, health, unknown methods, garbage, and HTTP on the same port.

use futures_util::StreamExt as _;
use leasehold_api::grpc::{self, PROBLEM_TRAILER};
use prost::Message as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Code, Request, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use crate::support::{Bench, problem};

#[tokio::test]
async fn reflection_lists_the_services_and_describes_them() {
    let bench = Bench::new().await;
    let mut client = ServerReflectionClient::new(bench.channel.clone());
    let ask = |message| ServerReflectionRequest { host: String::new(), message_request: Some(message) };
    let requests = futures_util::stream::iter([
        ask(MessageRequest::ListServices(String::new())),
        ask(MessageRequest::FileContainingSymbol("leasehold.v1.Leases.Connect".into())),
    ]);
    let mut answers = client.server_reflection_info(requests).await.unwrap().into_inner();
    let Some(MessageResponse::ListServicesResponse(listed)) = answers.next().await.unwrap().unwrap().message_response
    else {
        panic!("no list")
    };
    let names: Vec<&str> = listed.service.iter().map(|service| service.name.as_str()).collect();
    for name in ["Leases", "Resources", "Entries", "Watch", "Cluster"] {
        assert!(names.contains(&format!("leasehold.v1.{name}").as_str()), "{names:?}");
    }
    assert!(names.contains(&"grpc.health.v1.Health"), "{names:?}");
    let described = answers.next().await.unwrap().unwrap().message_response;
    assert!(matches!(described, Some(MessageResponse::FileDescriptorResponse(_))), "{described:?}");
}

#[tokio::test]
async fn health_follows_the_server() {
    let bench = Bench::new().await;
    let mut client = HealthClient::new(bench.channel.clone());
    for service in ["", "leasehold.v1.Leases"] {
        let request = HealthCheckRequest { service: service.into() };
        assert_eq!(client.check(request).await.unwrap().into_inner().status(), ServingStatus::Serving);
    }
    let unknown = HealthCheckRequest { service: "etcdserverpb.KV".into() };
    assert_eq!(client.check(unknown).await.unwrap_err().code(), Code::NotFound);
    let mut watch = client.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
    assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
    bench.service.stop().await;
    assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::NotServing);
    assert!(watch.message().await.unwrap().is_none(), "the watch ends with the server");
}

/// Sends bytes as they are, whatever the method expects.
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Raw;
    type Decoder = Raw;

    fn encoder(&mut self) -> Raw {
        Raw
    }

    fn decoder(&mut self) -> Raw {
        Raw
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        prost::bytes::BufMut::put_slice(into, &item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let mut bytes = vec![0; prost::bytes::Buf::remaining(from)];
        prost::bytes::Buf::copy_to_slice(from, &mut bytes);
        Ok(Some(bytes))
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::default()
    }
}

async fn raw(bench: &Bench, path: &'static str, bytes: Vec<u8>) -> Status {
    let mut client = tonic::client::Grpc::new(bench.channel.clone());
    client.ready().await.unwrap();
    let path = tonic::codegen::http::uri::PathAndQuery::from_static(path);
    client.unary(Request::new(bytes), path, Raw).await.unwrap_err()
}

#[tokio::test]
async fn garbage_too_much_and_unknown_methods_get_clean_answers() {
    let bench = Bench::new().await;
    let garbage = raw(&bench, "/leasehold.v1.Leases/Grant", vec![0xff; 100]).await;
    assert_eq!((garbage.code(), problem(&garbage).code.as_str()), (Code::InvalidArgument, "malformed"));
    let not_text = raw(&bench, "/leasehold.v1.Leases/Grant", vec![0x1a, 1, 0xff]).await;
    assert_eq!(problem(&not_text).code, "malformed");
    let large = raw(&bench, "/leasehold.v1.Entries/Put", vec![0; (2 << 20) + 1]).await;
    assert_eq!((large.code(), problem(&large).code.as_str()), (Code::InvalidArgument, "too_large"));
    let method = raw(&bench, "/leasehold.v1.Leases/Steal", vec![]).await;
    assert_eq!((method.code(), problem(&method).code.as_str()), (Code::Unimplemented, "unknown_route"));
    let service = raw(&bench, "/etcdserverpb.KV/Range", vec![]).await;
    assert_eq!(service.code(), Code::Unimplemented);
    // A field that this version does not know is a newer client's, and no reason to refuse.
    let newer = [grpc::InfoRequest {}.encode_to_vec(), vec![0xa2, 0x06, 0x01, b'x']].concat();
    let mut client = tonic::client::Grpc::new(bench.channel.clone());
    client.ready().await.unwrap();
    let path = tonic::codegen::http::uri::PathAndQuery::from_static("/leasehold.v1.Cluster/Info");
    let answer: tonic::Response<Vec<u8>> = client.unary(Request::new(newer), path, Raw).await.unwrap();
    assert!(!answer.metadata().contains_key(PROBLEM_TRAILER));
}

#[tokio::test]
async fn garbage_on_a_stream_ends_it_with_a_clean_status() {
    let bench = Bench::new().await;
    let mut client = tonic::client::Grpc::new(bench.channel.clone());
    client.ready().await.unwrap();
    let path = tonic::codegen::http::uri::PathAndQuery::from_static("/leasehold.v1.Leases/Connect");
    let sent = futures_util::stream::iter([vec![0x0a, 0xff]]).chain(futures_util::stream::pending());
    let mut down = client.streaming(Request::new(sent), path, Raw).await.unwrap().into_inner();
    let status = down.message().await.unwrap_err();
    assert_eq!(problem(&status).code, "malformed");
}

/// What HTTP/1.1 answers to a request.
async fn http1(bench: &Bench, request: &str) -> String {
    let mut socket = tokio::net::TcpStream::connect(bench.address).await.unwrap();
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn http_is_spoken_on_the_same_port() {
    let bench = Bench::new().await;
    let ready = http1(&bench, "GET /readyz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    assert!(ready.starts_with("HTTP/1.1 200"), "{ready}");
    let lost = http1(&bench, "GET /nowhere HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    assert!(lost.starts_with("HTTP/1.1 404") && lost.contains("unknown_route"), "{lost}");
    let plain = http1(&bench, "POST /leasehold.v1.Leases/Grant HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    assert!(plain.starts_with("HTTP/1.1 415"), "{plain}");
}
