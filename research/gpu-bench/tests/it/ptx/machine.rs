//! An interpreter for the few PTX instructions of our kernels: one warp, whose lanes synchronize at
//! each shuffle. The test provides the memory, and an access outside it or at a misaligned address
//! is an error.

use std::collections::HashMap;

pub const LANES: usize = 32;

/// A piece of device memory.
pub struct Piece {
    pub start: u64,
    pub bytes: Vec<u8>,
    pub writable: bool,
}

#[derive(Debug)]
struct Instruction {
    /// The predicate register that must be set.
    only: Option<String>,
    name: String,
    operands: Vec<String>,
}

/// A kernel.
pub struct Kernel {
    parameters: Vec<String>,
    code: Vec<Instruction>,
    labels: HashMap<String, usize>,
}

impl Kernel {
    /// Reads the kernel `name` of a module.
    pub fn parse(text: &str, name: &str) -> Self {
        let text: Vec<_> = text
            .lines()
            .map(|line| line.split("//").next().unwrap().trim())
            .collect();
        let text = text.join("\n");
        let (_, rest) = text.split_once(&format!(".entry {name}(")).unwrap();
        let (parameters, rest) = rest.split_once(')').unwrap();
        let parameters = parameters
            .split(',')
            .map(|parameter| parameter.split_whitespace().last().unwrap().to_owned());
        let (_, body) = rest.split_once("\n{").unwrap();
        let (body, _) = body.split_once("\n}").unwrap();
        let mut kernel = Self {
            parameters: parameters.collect(),
            code: Vec::new(),
            labels: HashMap::new(),
        };
        for line in body.lines().filter(|line| !line.is_empty()) {
            kernel.line(line);
        }
        kernel
    }

    fn line(&mut self, line: &str) {
        if let Some(label) = line.strip_suffix(':') {
            self.labels.insert(label.to_owned(), self.code.len());
        } else if !line.starts_with(".reg") {
            let mut rest = line.strip_suffix(';').unwrap();
            let mut only = None;
            if let Some(guarded) = rest.strip_prefix('@') {
                let (register, after) = guarded.split_once(' ').unwrap();
                (only, rest) = (Some(register.to_owned()), after);
            }
            let (name, operands) = rest.split_once(' ').unwrap_or((rest, ""));
            self.code.push(Instruction {
                only,
                name: name.to_owned(),
                operands: operands_of(operands),
            });
        }
    }
}

/// Splits at commas; `{a, b}` gives one operand for each register.
fn operands_of(text: &str) -> Vec<String> {
    let bare = text.replace(['{', '}', '[', ']'], "");
    let operands = bare.split(',').map(|line| line.trim().to_owned());
    operands.filter(|operand| !operand.is_empty()).collect()
}

/// A thread of the warp.
#[derive(Default)]
struct Lane {
    at: usize,
    ended: bool,
    registers: HashMap<String, u64>,
}

/// One warp of a grid.
pub struct Warp<'a> {
    pub kernel: &'a Kernel,
    pub arguments: &'a [u64],
    pub memory: &'a mut [Piece],
    /// `%ctaid.x`, and the index of the warp in its block.
    pub block: u32,
    pub warp: u32,
}

impl Warp<'_> {
    /// Runs all lanes to their ends.
    pub fn run(&mut self) {
        let mut lanes: Vec<Lane> = (0..LANES).map(|_| Lane::default()).collect();
        loop {
            for (number, lane) in lanes.iter_mut().enumerate() {
                self.run_to_shuffle(number, lane);
            }
            if lanes.iter().all(|lane| lane.ended) {
                return;
            }
            self.shuffle(&mut lanes);
        }
    }

    fn run_to_shuffle(&mut self, number: usize, lane: &mut Lane) {
        let kernel = self.kernel;
        while !lane.ended {
            let instruction = &kernel.code[lane.at];
            if instruction.name.starts_with("shfl") {
                return;
            }
            lane.at += 1;
            let guard = instruction.only.as_ref();
            if guard.is_none_or(|register| lane.registers[register] != 0) {
                self.step(number, lane, instruction);
            }
        }
    }

    /// Shuffles; all lanes of the mask must have reached the instruction.
    fn shuffle(&self, lanes: &mut [Lane]) {
        let at = lanes[0].at;
        assert!(lanes.iter().all(|lane| !lane.ended && lane.at == at));
        let instruction = &self.kernel.code[at];
        assert_eq!(instruction.name, "shfl.sync.down.b32");
        let [to, from, by, rest @ ..] = &instruction.operands[..] else {
            panic!("{instruction:?}");
        };
        assert_eq!(rest, ["31", "0xffffffff"]);
        let by: usize = by.parse().unwrap();
        let values: Vec<u64> = lanes.iter().map(|lane| lane.registers[from]).collect();
        for (number, lane) in lanes.iter_mut().enumerate() {
            let value = values.get(number + by).unwrap_or(&values[number]);
            lane.registers.insert(to.clone(), *value);
            lane.at += 1;
        }
    }

    fn step(&mut self, number: usize, lane: &mut Lane, instruction: &Instruction) {
        let operands = &instruction.operands;
        let value = |at: usize| self.value(number, lane, &operands[at]);
        let float = |at: usize| f32::from_bits(value(at) as u32);
        let result = match instruction.name.as_str() {
            "ret" => {
                lane.ended = true;
                return;
            }
            "bra" => {
                lane.at = self.kernel.labels[&operands[0]];
                return;
            }
            name if name.starts_with("ld.global") => return self.load(lane, name, operands),
            "st.global.f32" => {
                let (address, value) = (value(0), value(1) as u32);
                return self.store(address, value);
            }
            "ld.param.u32" | "ld.param.u64" => {
                let wanted = |one: &String| *one == operands[1];
                self.arguments[self.kernel.parameters.iter().position(wanted).unwrap()]
            }
            "mov.u32" | "mov.b32" | "mov.f32" | "cvta.to.global.u64" | "cvt.u32.u16" => value(1),
            "shr.u32" => value(1) >> value(2),
            "shl.b32" => u64::from((value(1) as u32) << value(2)),
            "shl.b64" => value(1) << value(2),
            "and.b32" => value(1) & value(2),
            "add.u32" => u64::from((value(1) as u32).wrapping_add(value(2) as u32)),
            "add.u64" => value(1).wrapping_add(value(2)),
            "mul.wide.u32" => value(1) * value(2),
            "mad.lo.u32" => (value(1) * value(2) + value(3)) & u64::from(u32::MAX),
            "setp.ge.u32" => u64::from(value(1) >= value(2)),
            "setp.lt.u32" => u64::from(value(1) < value(2)),
            "setp.eq.u32" => u64::from(value(1) == value(2)),
            "setp.ne.u32" => u64::from(value(1) != value(2)),
            "fma.rn.f32" => u64::from(float(1).mul_add(float(2), float(3)).to_bits()),
            "add.rn.f32" => u64::from((float(1) + float(2)).to_bits()),
            other => panic!("unknown instruction {other}"),
        };
        lane.registers.insert(operands[0].clone(), result);
    }

    /// Evaluates a register, a special register, a number, or a register plus a number.
    fn value(&self, number: usize, lane: &Lane, operand: &str) -> u64 {
        if let Some((register, offset)) = operand.split_once('+') {
            return self.value(number, lane, register) + offset.parse::<u64>().unwrap();
        }
        match operand {
            "%tid.x" => u64::from(self.warp) * LANES as u64 + number as u64,
            "%ctaid.x" => u64::from(self.block),
            _ if operand.starts_with("0x") => u64::from_str_radix(&operand[2..], 16).unwrap(),
            _ if operand.starts_with("0f") => u64::from_str_radix(&operand[2..], 16).unwrap(),
            _ if operand.starts_with(|first: char| first.is_ascii_digit()) => {
                operand.parse().unwrap()
            }
            _ => lane.registers[operand],
        }
    }

    /// Loads one register, or four from consecutive addresses.
    fn load(&self, lane: &mut Lane, name: &str, operands: &[String]) {
        let width: u64 = if name.ends_with("16") { 2 } else { 4 };
        let (address, registers) = operands.split_last().unwrap();
        let address = self.value(0, lane, address);
        assert_eq!(registers.len() == 4, name.contains(".v4."), "{name}");
        let all = width * registers.len() as u64;
        assert!(address.is_multiple_of(all), "{name} at {address:#x}");
        for (at, register) in registers.iter().enumerate() {
            let mut bytes = [0; 8];
            let place = self.find(address + at as u64 * width, width);
            let (piece, offset) = place.unwrap_or_else(|| panic!("{name} at {address:#x}"));
            let from = &self.memory[piece].bytes[offset..][..width as usize];
            bytes[..width as usize].copy_from_slice(from);
            lane.registers
                .insert(register.clone(), u64::from_le_bytes(bytes));
        }
    }

    fn store(&mut self, address: u64, value: u32) {
        assert!(address.is_multiple_of(4));
        let (piece, offset) = self.find(address, 4).unwrap();
        assert!(self.memory[piece].writable, "a write to read-only memory");
        self.memory[piece].bytes[offset..][..4].copy_from_slice(&value.to_le_bytes());
    }

    fn find(&self, address: u64, len: u64) -> Option<(usize, usize)> {
        let inside = |piece: &Piece| {
            piece.start <= address && address + len <= piece.start + piece.bytes.len() as u64
        };
        let piece = self.memory.iter().position(inside)?;
        Some((piece, (address - self.memory[piece].start) as usize))
    }
}
