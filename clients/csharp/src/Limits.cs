using System;

namespace Ticketing
{
    /// <summary>Every bound of the client, with its unit. The protocol's own are in the handbook's "Client protocol".</summary>
    internal static class Limits
    {
        internal const int KeySizeBytesMax = 128;
        internal const int SetKeyCountMax = 16;
        internal const int WaitSecondsMax = 255;
        internal const int LeaseSecondsMin = 1;
        internal const int LeaseSecondsMax = 250;
        internal const int TokenSizeBytesMin = 16;
        internal const int TokenSizeBytesMax = 4096;

        /// <summary>Acquires between call and answer, over the whole broker.</summary>
        internal const int PendingCountDefault = 1024;

        internal const int PendingCountMax = 16_384;

        /// <summary>Releases between call and answer.</summary>
        internal const int ReleaseCountMax = 1024;

        /// <summary>Bytes of requests that are handed to the socket at once.</summary>
        internal const int WriteBatchSizeBytes = 65_536;

        internal static readonly TimeSpan Connect = TimeSpan.FromSeconds(5);

        /// <summary>TLS and challenge-response together.</summary>
        internal static readonly TimeSpan Handshake = TimeSpan.FromSeconds(10);

        internal static readonly TimeSpan BackoffMin = TimeSpan.FromMilliseconds(100);
        internal static readonly TimeSpan BackoffMax = TimeSpan.FromMilliseconds(3_200);

        /// <summary>A session at least this long lets the back-off begin anew.</summary>
        internal static readonly TimeSpan LongSession = TimeSpan.FromSeconds(1);

        /// <summary>How long a sent acquire may stay unanswered beyond its wait.</summary>
        internal static readonly TimeSpan AnswerGrace = TimeSpan.FromSeconds(5);

        /// <summary>How long an immediate try may look for a server that takes it.</summary>
        internal static readonly TimeSpan Immediate = TimeSpan.FromSeconds(5);

        /// <summary>How long a release is retried, from the call.</summary>
        internal static readonly TimeSpan ReleaseWindow = TimeSpan.FromSeconds(5);

        /// <summary>How long one attempt of a release may stay unanswered before another is sent.</summary>
        internal static readonly TimeSpan ReleaseAttempt = TimeSpan.FromSeconds(2);

        internal static readonly TimeSpan RetryPauseMin = TimeSpan.FromMilliseconds(10);
        internal static readonly TimeSpan RetryPauseMax = TimeSpan.FromMilliseconds(100);
    }
}
