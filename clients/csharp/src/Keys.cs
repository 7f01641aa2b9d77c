using System;
using System.Collections.Generic;
using System.Text;

namespace Ticketing
{
    /// <summary>The key rule and the key-set rule: the same checks as the server's, before anything is sent.</summary>
    internal static class Keys
    {
        private static readonly UTF8Encoding Strict = new UTF8Encoding(false, true);

        /// <summary>The key's bytes, checked.</summary>
        internal static byte[] Checked(string key)
        {
            if (key is null)
            {
                throw new ArgumentNullException(nameof(key));
            }

            byte[] bytes;
            try
            {
                bytes = Strict.GetBytes(key);
            }
            catch (EncoderFallbackException cause)
            {
                throw new InvalidInputException("a key must be valid Unicode; this one has a lone surrogate", cause);
            }

            if (bytes.Length < 1 || bytes.Length > Limits.KeySizeBytesMax)
            {
                throw new InvalidInputException(
                    $"a key has 1 to {Limits.KeySizeBytesMax} bytes of UTF-8; this one has {bytes.Length}");
            }

            if (key.IndexOfAny(new[] { ' ', '\n', '\r' }) >= 0)
            {
                throw new InvalidInputException(
                    "a key must not contain a space, LF or CR; replace them, for example by '-'");
            }

            return bytes;
        }

        /// <summary>A set's keys as the wire wants them: checked, ascending bytewise, without duplicates.</summary>
        internal static byte[][] CheckedSet(IEnumerable<string> keys)
        {
            if (keys is null)
            {
                throw new ArgumentNullException(nameof(keys));
            }

            var sorted = new SortedSet<byte[]>(new Bytewise());
            foreach (string key in keys)
            {
                sorted.Add(Checked(key));
            }

            if (sorted.Count < 1 || sorted.Count > Limits.SetKeyCountMax)
            {
                throw new InvalidInputException(
                    $"a key set has 1 to {Limits.SetKeyCountMax} different keys; this one has {sorted.Count}");
            }

            var result = new byte[sorted.Count][];
            sorted.CopyTo(result);
            return result;
        }

        private sealed class Bytewise : IComparer<byte[]>
        {
            public int Compare(byte[] left, byte[] right) => left.AsSpan().SequenceCompareTo(right);
        }
    }
}
