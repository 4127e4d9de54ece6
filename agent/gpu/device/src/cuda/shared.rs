//! Items that both devices have alike: by the context, by streams, and by addresses of mappings.

/// Items of `DeviceMemory` for a device with the fields `context` and `registers_read_only`.
macro_rules! shared_items {
    () => {
        type Stream = $crate::cuda::CudaStream;
        type Event = $crate::cuda::CudaEvent;
        type Pinned = $crate::cuda::CudaPinned;
        type Registration = $crate::cuda::CudaRegistration;

        fn info(&self) -> Result<$crate::DeviceInfo, $crate::MemoryError> {
            self.context.info()
        }

        fn uuid(&self) -> Result<$crate::DeviceUuid, $crate::MemoryError> {
            self.context.uuid()
        }

        fn release(&self, chunk: Self::Chunk) -> Result<(), $crate::MemoryError> {
            drop(chunk);
            Ok(())
        }

        fn stream(&self) -> Result<Self::Stream, $crate::MemoryError> {
            Self::Stream::new(&self.context)
        }

        fn copy_in(
            &self,
            stream: &mut Self::Stream,
            to: &std::sync::Arc<Self::Mapping>,
            offset: u64,
            from: $crate::HostSlice,
        ) -> Result<(), $crate::MemoryError> {
            use $crate::Mapped as _;
            $crate::check_copy(to.protection(), offset, from.bytes().len(), to.bytes())?;
            let address = to.address() + offset;
            stream.copy_in(std::sync::Arc::<Self::Mapping>::clone(to), address, from)
        }

        fn record(&self, stream: &mut Self::Stream) -> Result<Self::Event, $crate::MemoryError> {
            stream.record()
        }

        fn is_done(&self, event: &Self::Event) -> Result<bool, $crate::MemoryError> {
            event.is_done()
        }

        fn wait(&self, event: &Self::Event) -> Result<(), $crate::MemoryError> {
            event.wait()
        }

        fn settle(&self, stream: &mut Self::Stream) -> Result<(), $crate::MemoryError> {
            stream.settle()
        }

        fn synchronize(&self, stream: &mut Self::Stream) -> Result<(), $crate::MemoryError> {
            stream.synchronize()
        }

        fn read_back(
            &self,
            from: &Self::Mapping,
            offset: u64,
            to: &mut [u8],
        ) -> Result<(), $crate::MemoryError> {
            use $crate::Mapped as _;
            $crate::check_inside(offset, to.len() as u64, from.bytes())?;
            $crate::cuda::copies::copy_out(&self.context, from.address() + offset, to)
        }

        fn reclaim(
            &self,
            chunk: Self::Chunk,
            mapping: Self::Mapping,
        ) -> Result<bool, $crate::MemoryError> {
            use $crate::Mapped as _;
            let bytes = mapping.bytes();
            // Other processes allocate and free meanwhile. What they take makes this false, which is
            // counted too long; what they free in this moment was free memory all the same.
            let before = self.info()?.free_bytes;
            drop((mapping, chunk));
            let after = self.info()?.free_bytes;
            Ok(after.saturating_sub(before) >= bytes)
        }

        fn clear(&self, mapping: &Self::Mapping) -> Result<(), $crate::MemoryError> {
            use $crate::Mapped as _;
            $crate::check_copy(mapping.protection(), 0, 0, mapping.bytes())?;
            Self::Stream::new(&self.context)?.fill(mapping, 0)
        }

        fn finish(&self) -> Result<(), $crate::MemoryError> {
            self.context.synchronize()
        }

        fn finish_here(&self) -> Result<(), $crate::MemoryError> {
            self.context.synchronize_others()
        }

        fn queue_wait(
            &self,
            stream: $crate::StreamHandle,
            wait: Box<dyn FnOnce() + Send>,
        ) -> Result<(), $crate::MemoryError> {
            $crate::cuda::consumer::queue(&self.context, stream, wait)
        }

        fn pinned(&self, bytes: usize) -> Result<Self::Pinned, $crate::MemoryError> {
            Self::Pinned::new(&self.context, bytes)
        }

        fn register(
            &self,
            memory: $crate::HostSlice,
        ) -> Result<Self::Registration, $crate::MemoryError> {
            Self::Registration::new(&self.context, &memory, self.registers_read_only)
        }
    };
}

pub(super) use shared_items;
