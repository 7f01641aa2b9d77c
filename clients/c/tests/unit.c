/* Parts of the library by themselves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "buffer.h"
#include "keys.h"
#include "options.h"
#include "timer.h"

static void key_rule(void **state) {
    (void)state;
    char longest[129];
    memset(longest, 'k', sizeof longest);
    assert_true(key_is_valid("order-1", 7));
    assert_true(key_is_valid("a\0b\t", 4));
    assert_true(key_is_valid("\xc3\xa4\xe2\x82\xac\xf0\x9f\x8e\xab", 9));
    assert_true(key_is_valid(longest, 128));
    assert_false(key_is_valid(longest, 129));
    assert_false(key_is_valid("", 0));
    assert_false(key_is_valid(NULL, 0));
    static const char *const BAD[] = {"a b",
                                      "a\n",
                                      "a\r",
                                      "\x80",
                                      "\xc0\xaf",
                                      "\xc3",
                                      "\xe0\x80\xaf",
                                      "\xed\xa0\x80",
                                      "\xf0\x80\x80\xaf",
                                      "\xf4\x90\x80\x80",
                                      "\xf5\x80\x80\x80",
                                      "\xff"};
    for (size_t index = 0; index < sizeof BAD / sizeof *BAD; index++) {
        assert_false(key_is_valid(BAD[index], strlen(BAD[index])));
    }
}

static void key_sets_are_sorted_and_unique(void **state) {
    (void)state;
    const ticketing_key list[] = {{"b", 1}, {"a", 1}, {"b", 1}, {"ab", 2}, {"a\0", 2}};
    keys *keys = NULL;
    assert_int_equal(keys_new(list, 5, &keys), TICKETING_OK);
    assert_int_equal(keys->count, 4);
    static const char *const WANTED[] = {"a", "a", "ab", "b"};
    for (size_t index = 0; index < 4; index++) {
        assert_string_equal((const char *)keys->bytes + keys->key[index].offset, WANTED[index]);
    }
    keys_release(keys);
    ticketing_key many[17];
    char names[17][2];
    for (size_t index = 0; index < 17; index++) {
        names[index][0] = (char)('a' + index);
        many[index].bytes = names[index];
        many[index].size = 1;
    }
    assert_int_equal(keys_new(many, 16, &keys), TICKETING_OK);
    keys_release(keys);
    assert_int_equal(keys_new(many, 17, &keys), TICKETING_ERROR_INVALID_INPUT);
    assert_int_equal(keys_new(many, 0, &keys), TICKETING_ERROR_INVALID_INPUT);
}

static void ignore(void *owner) { (void)owner; }

static void timers_come_in_order(void **state) {
    (void)state;
    enum { COUNT = 500 };
    timers timers = {0};
    timer list[COUNT];
    uint32_t random = 1;
    assert_true(timers_reserve(&timers, COUNT));
    for (size_t index = 0; index < COUNT; index++) {
        timer_init(&list[index], ignore, NULL);
        random = random * 1664525 + 1013904223;
        timer_arm(&timers, &list[index], random % 1000);
    }
    for (size_t index = 0; index < COUNT; index += 3) {
        timer_disarm(&timers, &list[index]);
        timer_disarm(&timers, &list[index]);
    }
    for (size_t index = 1; index < COUNT; index += 3) {
        random = random * 1664525 + 1013904223;
        timer_arm(&timers, &list[index], random % 1000);
    }
    int64_t last = -1;
    size_t count = 0;
    assert_null(timers_pop(&timers, -1));
    for (timer *due = timers_pop(&timers, 1000); due != NULL; due = timers_pop(&timers, 1000)) {
        assert_true(due->at >= last);
        last = due->at;
        count++;
    }
    assert_int_equal(count, COUNT - (COUNT + 2) / 3);
    assert_int_equal(timers_next(&timers), INT64_MAX);
    timers_free(&timers);
}

static void buffers_keep_order_and_reuse_room(void **state) {
    (void)state;
    buffer buffer = {0};
    uint8_t next_in = 0;
    uint8_t next_out = 0;
    for (int round = 0; round < 1000; round++) {
        for (int index = 0; index < 100; index++) {
            assert_true(buffer_append(&buffer, &next_in, 1));
            next_in++;
        }
        while (buffer_size(&buffer) > 50) {
            assert_int_equal(buffer_bytes(&buffer)[0], next_out);
            buffer_taken(&buffer, 1);
            next_out++;
        }
    }
    assert_true(buffer.capacity <= 1024);
    buffer_free(&buffer);
}

static void options_are_checked(void **state) {
    (void)state;
    static const char *const BAD[] = {"127.0.0.1", "127.0.0.1:0", ":1",    "a b:1", "a:65536",
                                      "a:-1",      "[::1:1",      "::1:1", "[x]:1"};
    ticketing_options *options = ticketing_options_new();
    for (size_t index = 0; index < sizeof BAD / sizeof *BAD; index++) {
        assert_int_equal(ticketing_options_add_address(options, BAD[index]), TICKETING_ERROR_INVALID_INPUT);
        assert_non_null(strstr(ticketing_options_error(options), BAD[index]));
    }
    assert_int_equal(ticketing_options_set_token(options, "short", 5), TICKETING_ERROR_INVALID_INPUT);
    assert_int_equal(ticketing_options_set_fingerprint(options, "00"), TICKETING_ERROR_INVALID_INPUT);
    assert_int_equal(ticketing_options_set_pending_max(options, 0), TICKETING_ERROR_INVALID_INPUT);
    assert_int_equal(ticketing_options_set_pending_max(options, 16385), TICKETING_ERROR_INVALID_INPUT);
    ticketing_broker *broker = NULL;
    assert_int_equal(ticketing_broker_new(options, &broker), TICKETING_ERROR_INVALID_INPUT);
    assert_int_equal(ticketing_options_add_address(options, "[2001:db8::1]:5225"), TICKETING_OK);
    assert_int_equal(ticketing_broker_new(options, &broker), TICKETING_ERROR_INVALID_INPUT);
    assert_non_null(strstr(ticketing_options_error(options), "2001:db8::1"));
    assert_int_equal(ticketing_options_set_token(options, "0123456789abcdef", 16), TICKETING_OK);
    assert_int_equal(ticketing_options_set_tls_ca_file(options, "no/such/file.pem"), TICKETING_OK);
    assert_int_equal(ticketing_broker_new(options, &broker), TICKETING_ERROR_INVALID_INPUT);
    assert_non_null(strstr(ticketing_options_error(options), "no/such/file.pem"));
    ticketing_options_free(options);
}

static void a_server_name_needs_tls(void **state) {
    (void)state;
    ticketing_options *options = ticketing_options_new();
    ticketing_broker *broker = NULL;
    assert_int_equal(ticketing_options_add_address(options, "127.0.0.1:1"), TICKETING_OK);
    assert_int_equal(ticketing_options_set_server_name(options, "locks.example"), TICKETING_OK);
    assert_int_equal(ticketing_broker_new(options, &broker), TICKETING_ERROR_INVALID_INPUT);
    assert_int_equal(ticketing_broker_new_polled(options, &broker), TICKETING_ERROR_INVALID_INPUT);
    assert_null(broker);
    assert_non_null(strstr(ticketing_options_error(options), "server name \"locks.example\" without TLS"));
    /* Set before or after. */
    assert_int_equal(ticketing_options_set_tls_insecure(options), TICKETING_OK);
    assert_int_equal(ticketing_broker_new(options, &broker), TICKETING_OK);
    ticketing_broker_free(broker);
    ticketing_options_free(options);
}

static void statuses_have_names(void **state) {
    (void)state;
    ticketing_status rejected = (ticketing_status)(TICKETING_ERROR_REJECTED + 256 * 6);
    assert_int_equal(ticketing_kind(rejected), TICKETING_ERROR_REJECTED);
    assert_int_equal(ticketing_rejection_code(rejected), 6);
    assert_string_equal(ticketing_status_name(rejected), "Rejected");
    assert_string_equal(ticketing_status_name(TICKETING_ERROR_INDETERMINATE), "Indeterminate");
    assert_int_equal(ticketing_rejection_code(TICKETING_ERROR_TIMEOUT), 0);
    assert_string_equal(ticketing_status_name((ticketing_status)200), "Unknown");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(key_rule),
        cmocka_unit_test(key_sets_are_sorted_and_unique),
        cmocka_unit_test(timers_come_in_order),
        cmocka_unit_test(buffers_keep_order_and_reuse_room),
        cmocka_unit_test(options_are_checked),
        cmocka_unit_test(a_server_name_needs_tls),
        cmocka_unit_test(statuses_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
