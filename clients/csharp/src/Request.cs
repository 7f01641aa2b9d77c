using System;
using System.Threading;

namespace Ticketing
{
    /// <summary>How a request ended on its connection.</summary>
    internal enum End
    {
        Answered,

        /// <summary>It may have been taken, and no answer will come.</summary>
        Lost,

        /// <summary>No byte of it was handed to the socket: the server provably did not take it.</summary>
        Unsent,
    }

    /// <summary>
    /// The life of one request on one connection: queued, sent, done. "Sent" begins before its first byte is handed to
    /// the socket.
    /// </summary>
    internal abstract class Request
    {
        private const int Queued = 0;
        private const int Sent = 1;
        private const int Done = 2;

        private int state = Queued;

        protected Request(char kind, byte[][] keys)
        {
            Kind = kind;
            Keys = keys;
        }

        internal char Kind { get; }

        internal byte[][] Keys { get; }

        /// <summary>When its sending began. Set before it counts as sent.</summary>
        internal TimeSpan SentAt { get; private set; }

        internal bool IsQueued => Volatile.Read(ref state) == Queued;

        /// <summary>The frame, made at the moment of sending.</summary>
        internal abstract byte[] Frame(ulong requestId, TimeSpan now);

        /// <summary>Called by the connection right before the bytes go out; false when it was withdrawn.</summary>
        internal bool MarkSent(TimeSpan now)
        {
            SentAt = now;
            return Interlocked.CompareExchange(ref state, Sent, Queued) == Queued;
        }

        /// <summary>Takes it back; true when no byte of it was or will be sent. Its end is then not told.</summary>
        internal bool Withdraw() => Interlocked.CompareExchange(ref state, Done, Queued) == Queued;

        internal void Settle(End end, Reply reply = default)
        {
            if (Interlocked.Exchange(ref state, Done) != Done)
            {
                Ended(end, reply);
            }
        }

        /// <summary>Told once. The reply is there only when it was answered.</summary>
        protected abstract void Ended(End end, Reply reply);
    }
}
