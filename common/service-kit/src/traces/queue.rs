//! Spans that ended and were not sent yet, within limits of their number and bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use opentelemetry::{Context, KeyValue, Value};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanProcessor};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Largest number of spans that wait.
const SPANS: usize = 2048;
/// Largest size of the spans that wait, in bytes.
const BYTES: usize = 4 << 20;
/// Charge of a span besides its texts, in bytes.
const SPAN: usize = size_of::<SpanData>();

/// Counts of a queue that both of its ends share.
#[derive(Debug, Default)]
struct Counts {
    /// Bytes of the spans that wait.
    bytes: AtomicUsize,
    /// Spans that found no place.
    lost: AtomicU64,
}

/// Takes spans when they end.
#[derive(Debug)]
pub(super) struct QueueProcessor {
    sender: Sender<(SpanData, usize)>,
    counts: Arc<Counts>,
}

/// Spans that wait, oldest first.
#[derive(Debug)]
pub(super) struct Spans {
    receiver: Receiver<(SpanData, usize)>,
    /// The span that ended a wait.
    first: Option<(SpanData, usize)>,
    counts: Arc<Counts>,
}

/// Creates an empty queue.
pub(super) fn queue() -> (QueueProcessor, Spans) {
    let (sender, receiver) = channel(SPANS);
    let counts = Arc::new(Counts::default());
    let processor = QueueProcessor {
        sender,
        counts: Arc::clone(&counts),
    };
    let spans = Spans {
        receiver,
        first: None,
        counts,
    };
    (processor, spans)
}

impl SpanProcessor for QueueProcessor {
    fn on_start(&self, _span: &mut Span, _context: &Context) {}

    fn on_end(&self, span: SpanData) {
        if !span.span_context.is_sampled() {
            return;
        }
        let bytes = bytes(&span);
        let queued = self.counts.bytes.fetch_add(bytes, Ordering::Relaxed);
        if queued.saturating_add(bytes) > BYTES || self.sender.try_send((span, bytes)).is_err() {
            self.counts.bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.counts.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Does nothing: the process sends spans while its runtime lives.
    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        Ok(())
    }
}

impl Spans {
    /// Waits until a span waits. Never returns once the queue is closed and empty.
    pub(super) async fn wait(&mut self) {
        if self.first.is_none() {
            self.first = self.receiver.recv().await;
        }
        if self.first.is_none() {
            std::future::pending::<()>().await;
        }
    }

    /// Spans that wait now, `most` at most.
    pub(super) fn take(&mut self, most: usize) -> Vec<SpanData> {
        let (receiver, counts) = (&mut self.receiver, &self.counts);
        let waiting = std::iter::from_fn(|| receiver.try_recv().ok());
        let batch = self.first.take().into_iter().chain(waiting).take(most);
        let spans = batch.map(|(span, bytes)| {
            counts.bytes.fetch_sub(bytes, Ordering::Relaxed);
            span
        });
        spans.collect()
    }

    /// Number of spans that found no place since the last call.
    pub(super) fn lost(&self) -> u64 {
        self.counts.lost.swap(0, Ordering::Relaxed)
    }
}

/// Bytes of a span in memory, about.
fn bytes(span: &SpanData) -> usize {
    let events = span.events.iter().map(|event| {
        size_of_val(event) + event.name.len() + bytes_of_attributes(&event.attributes)
    });
    SPAN + span.name.len() + bytes_of_attributes(&span.attributes) + events.sum::<usize>()
}

fn bytes_of_attributes(attributes: &[KeyValue]) -> usize {
    let bytes = attributes.iter().map(|attribute| {
        let text = match &attribute.value {
            Value::String(text) => text.as_str().len(),
            _ => 0,
        };
        size_of::<KeyValue>() + attribute.key.as_str().len() + text
    });
    bytes.sum()
}

#[cfg(test)]
mod tests {
    use opentelemetry::trace::{Span as _, Tracer as _, TracerProvider as _};
    use opentelemetry_sdk::trace::SdkTracerProvider;

    use super::*;

    fn end_spans(provider: &SdkTracerProvider, count: usize, text: &str) {
        for _ in 0..count {
            let mut span = provider.tracer("t").start("s");
            span.set_attribute(KeyValue::new("text", text.to_owned()));
            span.end();
        }
    }

    #[test]
    fn a_queue_that_nobody_empties_holds_a_limited_number_of_spans() {
        let (processor, mut spans) = queue();
        let provider = SdkTracerProvider::builder()
            .with_span_processor(processor)
            .build();
        end_spans(&provider, SPANS + 100, "short");
        assert_eq!((spans.lost(), spans.lost()), (100, 0));
        assert_eq!(spans.take(usize::MAX).len(), SPANS);
        assert_eq!(spans.counts.bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn long_texts_fill_a_queue_by_their_bytes() {
        let (processor, mut spans) = queue();
        let provider = SdkTracerProvider::builder()
            .with_span_processor(processor)
            .build();
        end_spans(&provider, 100, &"x".repeat(BYTES / 50));
        assert_eq!(spans.take(usize::MAX).len(), 49);
        assert_eq!(spans.lost(), 51);
    }
}
