//! The rule of routers that swap per request, such as llama-swap's default: one model at a time, requests in the order of their
//! arrival. The first request for another model ends the turn of the awake one, once its requests have ended.

use std::collections::{HashSet, VecDeque};

use crate::policy::{Act, Policy};

/// Swaps per request.
#[derive(Debug, Default)]
pub struct SwapPerRequest {
    queue: VecDeque<(usize, usize)>,
    running: HashSet<usize>,
    awake: Option<usize>,
    moves: bool,
}

impl Policy for SwapPerRequest {
    fn offer(&mut self, _now_us: u64, model: usize, request: usize) -> bool {
        self.queue.push_back((request, model));
        true
    }

    fn ended(&mut self, _now_us: u64, request: usize) {
        if !self.running.remove(&request) {
            self.queue.retain(|&(waiting, _)| waiting != request);
        }
    }

    fn slept(&mut self, _now_us: u64, _model: usize) {
        self.awake = None;
        self.moves = false;
    }

    fn woke(&mut self, _now_us: u64, model: usize) {
        self.awake = Some(model);
        self.moves = false;
    }

    fn act(&mut self, _now_us: u64) -> Vec<Act> {
        let mut acts = Vec::new();
        while !self.moves
            && let Some(&(request, model)) = self.queue.front()
        {
            if self.awake == Some(model) {
                self.queue.pop_front();
                self.running.insert(request);
                acts.push(Act::Start(request));
                continue;
            }
            if self.running.is_empty() {
                self.moves = true;
                acts.push(self.awake.map_or(Act::Wake(model), Act::Sleep));
            }
            break;
        }
        acts
    }

    fn next_us(&self, _now_us: u64) -> Option<u64> {
        None
    }
}
