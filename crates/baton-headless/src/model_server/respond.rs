//! Turns a reply into an HTTP response, one that breaks where the script says so.

use std::io;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use baton_core::Timestamp;
use baton_llm::script::{Ending, Failure};
use futures_util::{StreamExt, stream};
use serde_json::Value;

use super::{Format, Reply, failure_message};

/// How long a response that will be cut gets to send what it has.
const FLUSH: Duration = Duration::from_millis(2);

const JSON: &str = "application/json";
const EVENT_STREAM: &str = "text/event-stream";

pub(super) fn respond(format: &dyn Format, reply: &Reply<'_>, streams: bool) -> Response {
    match &reply.line.ending {
        Ending::Failed(failure) if !streams || reply.message.content.is_empty() => http_failure(format, failure),
        Ending::Cut if streams => cut(EVENT_STREAM, format.stream(reply) + "data: {\""),
        Ending::Cut => {
            let mut text = format.whole(reply).to_string();
            text.truncate(text.floor_char_boundary(text.len() / 2));
            cut(JSON, text)
        }
        Ending::Complete(_) | Ending::Failed(_) if streams => {
            // A stream, though of one piece: chunked as a provider sends it.
            let body = Body::from_stream(stream::iter([Ok::<_, io::Error>(format.stream(reply))]));
            ([(header::CONTENT_TYPE, EVENT_STREAM)], body).into_response()
        }
        Ending::Complete(_) | Ending::Failed(_) => json_response(StatusCode::OK, &format.whole(reply)),
    }
}

/// A response whose connection breaks after `text`.
fn cut(content_type: &'static str, text: String) -> Response {
    let lost = async {
        // The text must be on its way first: an error drops what is still buffered.
        tokio::time::sleep(FLUSH).await;
        Err(io::Error::from(io::ErrorKind::ConnectionAborted))
    };
    let body = stream::iter([Ok(text)]).chain(stream::once(lost));
    ([(header::CONTENT_TYPE, content_type)], Body::from_stream(body)).into_response()
}

fn http_failure(format: &dyn Format, failure: &Failure) -> Response {
    // The script's parser lets no other status through.
    let status = StatusCode::from_u16(failure.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = match &failure.body {
        Some(Value::String(text)) => (status, text.clone()).into_response(),
        Some(body) => json_response(status, body),
        None => json_response(status, &format.error(failure.status, &failure_message(failure))),
    };
    let retry_after = failure.retry_after.as_ref().map(|retry_after| retry_after.header(Timestamp::now()));
    if let Some(value) = retry_after.and_then(|text| HeaderValue::try_from(text).ok()) {
        response.headers_mut().insert(header::RETRY_AFTER, value);
    }
    response
}

pub(super) fn json_response(status: StatusCode, body: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, JSON)], body.to_string()).into_response()
}
