using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Net;
using System.Net.Sockets;
using System.Threading;
using System.Threading.Tasks;

namespace Ticketing
{
    /// <summary>Whom a connection tells. Called without its lock.</summary>
    internal interface IConnectionListener
    {
        /// <summary>It became usable, or stopped being so.</summary>
        void Changed(Connection connection);

        /// <summary>A session ended with this failure; the next one may do better.</summary>
        void Failed(string reason);

        /// <summary>The server accepted or refused the token.</summary>
        void Verdict(bool refusal);

        /// <summary><c>M</c> or <c>L</c> named a leader; <see cref="Reply.NoSlot"/> for none.</summary>
        void Leader(byte slot);
    }

    /// <summary>One address: connects, shakes hands, carries pipelined requests, and reconnects until closed.</summary>
    internal sealed class Connection
    {
        private const int ReadBufferSizeBytes = 16_384;

        private readonly Endpoint endpoint;
        private readonly Expected expected;
        private readonly int voterCount;
        private readonly Settings settings;
        private readonly IConnectionListener listener;
        private readonly CancellationTokenSource closing = new CancellationTokenSource();
        private readonly SemaphoreSlim work = new SemaphoreSlim(0, 1);
        private readonly object gate = new object();
        private readonly Dictionary<ulong, Request> sent = new Dictionary<ulong, Request>();
        private Queue<Request> queue = new Queue<Request>();
        private ulong nextRequestId;
        private Socket? socket;
        private Task running = Task.CompletedTask;
        private volatile bool usable;
        private long receivedAtTicks;

        internal Connection(Endpoint endpoint, Expected expected, int voterCount, Settings settings, IConnectionListener listener)
        {
            this.endpoint = endpoint;
            this.expected = expected;
            this.voterCount = voterCount;
            this.settings = settings;
            this.listener = listener;
        }

        /// <summary>Whether requests can be handed to it: the handshake is done and the socket is open.</summary>
        internal bool IsUsable => usable;

        /// <summary>When bytes last came from the server.</summary>
        internal TimeSpan ReceivedAt => TimeSpan.FromTicks(Interlocked.Read(ref receivedAtTicks));

        internal void Start() => running = Task.Run(Run);

        /// <summary>Hands it a request, which is told how it ends; at once as unsent when it is not usable.</summary>
        internal void Submit(Request request)
        {
            lock (gate)
            {
                if (usable)
                {
                    queue.Enqueue(request);
                    if (work.CurrentCount == 0)
                    {
                        work.Release();
                    }

                    return;
                }
            }

            request.Settle(End.Unsent);
        }

        /// <summary>Ends the session; the worker reconnects.</summary>
        internal void Abort()
        {
            lock (gate)
            {
                socket?.Dispose();
            }
        }

        /// <summary>Ends the worker; completes when its socket is gone.</summary>
        internal async Task Close()
        {
            closing.Cancel();
            Abort();
            await running.ConfigureAwait(false);
        }

        private async Task Run()
        {
            TimeSpan backoff = Limits.BackoffMin;
            while (!closing.IsCancellationRequested)
            {
                TimeSpan? usableSince = await Session().ConfigureAwait(false);
                if (usableSince != null && Clock.Now - usableSince >= Limits.LongSession)
                {
                    backoff = Limits.BackoffMin;
                }

                await Clock.Pause(backoff, closing.Token).ConfigureAwait(false);
                backoff = backoff + backoff < Limits.BackoffMax ? backoff + backoff : Limits.BackoffMax;
            }
        }

        /// <summary>One connection from connect to close; says since when it was usable.</summary>
        private async Task<TimeSpan?> Session()
        {
            TimeSpan? usableSince = null;
            try
            {
                Stream plain = await Connect().ConfigureAwait(false);
                using Stream stream = await Within(Limits.Handshake, () => ShakeHands(plain)).ConfigureAwait(false);
                usableSince = Clock.Now;
                await Serve(stream).ConfigureAwait(false);
            }
            catch (ProofRefused)
            {
                listener.Verdict(true);
            }
            catch (Exception failure) when (!(failure is OutOfMemoryException))
            {
                // Whatever ended the session, the next one may do better: a dead server never breaks the client.
                if (!closing.IsCancellationRequested)
                {
                    listener.Failed($"{endpoint.Host}:{endpoint.Port}: {failure.Message}");
                }
            }
            finally
            {
                EndSession();
            }

            return usableSince;
        }

        /// <summary>Tries the addresses of the host in turn.</summary>
        private async Task<Stream> Connect()
        {
            // Looking a name up takes a thread of the pool; an address needs none.
            IPAddress[] addresses = IPAddress.TryParse(endpoint.Host, out IPAddress numeric)
                ? new[] { numeric }
                : await Dns.GetHostAddressesAsync(endpoint.Host).ConfigureAwait(false);
            Exception last = new IOException($"{endpoint.Host} has no address");
            foreach (IPAddress address in addresses)
            {
                try
                {
                    return await Within(Limits.Connect, () => Connect(address)).ConfigureAwait(false);
                }
                catch (Exception failure) when (failure is SocketException || failure is ObjectDisposedException)
                {
                    last = failure;
                }
            }

            throw last;
        }

        private async Task<Stream> Connect(IPAddress address)
        {
            var opened = new Socket(address.AddressFamily, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
            opened.SetSocketOption(SocketOptionLevel.Socket, SocketOptionName.KeepAlive, true);
            lock (gate)
            {
                socket?.Dispose();
                socket = opened;
            }

            if (closing.IsCancellationRequested)
            {
                opened.Dispose();
            }

            await opened.ConnectAsync(new IPEndPoint(address, endpoint.Port)).ConfigureAwait(false);
            return new NetworkStream(opened, true);
        }

        /// <summary>Cuts the socket when the action takes longer.</summary>
        private async Task<T> Within<T>(TimeSpan time, Func<Task<T>> action)
        {
            using var watchdog = new CancellationTokenSource(time);
            using (watchdog.Token.Register(Abort))
            {
                return await action().ConfigureAwait(false);
            }
        }

        private async Task<Stream> ShakeHands(Stream plain)
        {
            Stream stream = settings.Tls is null
                ? plain
                : await settings.Tls.Secure(plain, endpoint.Host).ConfigureAwait(false);
            var hello = new byte[Handshake.HelloSize];
            await ReadExactly(stream, hello).ConfigureAwait(false);
            byte[] proof = Handshake.Prove(hello, expected, settings.Token);
            await stream.WriteAsync(proof, 0, proof.Length).ConfigureAwait(false);
            var verdict = new byte[1];
            await ReadExactly(stream, verdict).ConfigureAwait(false);
            Handshake.CheckVerdict(verdict[0]);
            return stream;
        }

        private async Task Serve(Stream stream)
        {
            lock (gate)
            {
                nextRequestId = 1;
                Interlocked.Exchange(ref receivedAtTicks, Clock.Now.Ticks);
                usable = true;
            }

            listener.Verdict(false);
            listener.Changed(this);
            using var ended = new CancellationTokenSource();
            Task writing = Write(stream, ended.Token);
            try
            {
                await Read(stream).ConfigureAwait(false);
            }
            finally
            {
                ended.Cancel();
                Abort();
                await writing.ConfigureAwait(false);
            }
        }

        private async Task Read(Stream stream)
        {
            var buffer = new byte[ReadBufferSizeBytes];
            int filled = 0;
            var answers = new List<(Request Request, Reply Reply)>();
            for (;;)
            {
                int count = await stream.ReadAsync(buffer, filled, buffer.Length - filled).ConfigureAwait(false);
                if (count == 0)
                {
                    return;
                }

                Interlocked.Exchange(ref receivedAtTicks, Clock.Now.Ticks);
                filled += count;
                try
                {
                    int used = Decode(buffer.AsSpan(0, filled), answers);
                    Buffer.BlockCopy(buffer, used, buffer, 0, filled - used);
                    filled -= used;
                }
                finally
                {
                    foreach ((Request request, Reply reply) in answers)
                    {
                        request.Settle(End.Answered, reply);
                    }

                    answers.Clear();
                }
            }
        }

        /// <summary>Finds the requests that the whole replies answer; returns how many bytes are done.</summary>
        private int Decode(ReadOnlySpan<byte> bytes, List<(Request Request, Reply Reply)> answers)
        {
            int used = 0;
            for (;;)
            {
                int size = Protocol.Decode(bytes.Slice(used), voterCount, out Reply reply);
                if (size == 0)
                {
                    return used;
                }

                used += size;
                if (reply.Op != 'L')
                {
                    lock (gate)
                    {
                        if (!sent.TryGetValue(reply.RequestId, out Request request) || !reply.Answers(request.Kind))
                        {
                            throw new ProtocolFault($"reply {reply.Op} fits no waiting request");
                        }

                        sent.Remove(reply.RequestId);
                        answers.Add((request, reply));
                    }
                }

                if (reply.Op == 'L' || reply.Op == 'M')
                {
                    listener.Leader(reply.Detail);
                }
            }
        }

        private async Task Write(Stream stream, CancellationToken ended)
        {
            var batch = new byte[2 * Limits.WriteBatchSizeBytes];
            try
            {
                for (;;)
                {
                    await work.WaitAsync(ended).ConfigureAwait(false);
                    for (int size = TakeBatch(batch); size > 0; size = TakeBatch(batch))
                    {
                        await stream.WriteAsync(batch, 0, size).ConfigureAwait(false);
                    }
                }
            }
            catch (Exception failure) when (failure is OperationCanceledException || failure is IOException
                || failure is ObjectDisposedException || failure is InvalidOperationException)
            {
                // The reader sees the end as well, and tells the requests.
                Abort();
            }
        }

        /// <summary>Marks queued requests as sent and puts their frames into the batch.</summary>
        private int TakeBatch(byte[] batch)
        {
            lock (gate)
            {
                int size = 0;
                TimeSpan now = Clock.Now;
                while (usable && size < Limits.WriteBatchSizeBytes && queue.Count > 0)
                {
                    Request request = queue.Dequeue();
                    if (request.MarkSent(now))
                    {
                        ulong requestId = nextRequestId++;
                        sent.Add(requestId, request);
                        byte[] frame = request.Frame(requestId, now);
                        frame.CopyTo(batch, size);
                        size += frame.Length;
                    }
                }

                return size;
            }
        }

        /// <summary>Tells everybody on board that the session is over.</summary>
        private void EndSession()
        {
            Request[] lost;
            Queue<Request> unsent;
            lock (gate)
            {
                usable = false;
                socket?.Dispose();
                socket = null;
                lost = sent.Values.ToArray();
                sent.Clear();
                unsent = queue;
                queue = new Queue<Request>();
            }

            listener.Changed(this);
            foreach (Request request in lost)
            {
                request.Settle(End.Lost);
            }

            foreach (Request request in unsent)
            {
                request.Settle(End.Unsent);
            }
        }

        private static async Task ReadExactly(Stream stream, byte[] buffer)
        {
            for (int filled = 0; filled < buffer.Length;)
            {
                int count = await stream.ReadAsync(buffer, filled, buffer.Length - filled).ConfigureAwait(false);
                filled += count > 0 ? count : throw new EndOfStreamException("closed during the handshake");
            }
        }
    }
}
