; saxpy: 1 lanes


define void @"saxpy"(ptr noalias %arguments, ptr noalias %counter, i64 %groups, i64 %chunk) nounwind "min-legal-vector-width"="512" "prefer-vector-width"="512" {
entry:
  %s0 = getelementptr i64, ptr %arguments, i64 0
  %p0 = load i32, ptr %s0
  %s1 = getelementptr i64, ptr %arguments, i64 1
  %p1 = load float, ptr %s1
  %s2 = getelementptr i64, ptr %arguments, i64 2
  %p2 = load ptr, ptr %s2
  %s3 = getelementptr i64, ptr %arguments, i64 3
  %p3 = load ptr, ptr %s3
  %groups32 = trunc i64 %groups to i32
  br label %take
take:
  %first = atomicrmw add ptr %counter, i64 %chunk monotonic
  %more = icmp ult i64 %first, %groups
  br i1 %more, label %begin, label %finished
begin:
  %wanted = add i64 %first, %chunk
  %fits = icmp ult i64 %wanted, %groups
  %last = select i1 %fits, i64 %wanted, i64 %groups
  br label %group
group:
  %index = phi i64 [ %first, %begin ], [ %following, %next ]
  %group32 = trunc i64 %index to i32
  %v0 = add i32 %group32, 0
  %v1 = icmp ult i32 %v0, %p0
  br i1 %v1, label %then3, label %else4
then3:
  %v5 = zext i32 %v0 to i64
  %v6 = getelementptr float, ptr %p2, i64 %v5
  %v7 = load float, ptr %v6, align 4
  %v8 = fmul float %p1, %v7
  %v9 = zext i32 %v0 to i64
  %v10 = getelementptr float, ptr %p3, i64 %v9
  %v11 = load float, ptr %v10, align 4
  %v12 = fadd float %v8, %v11
  %v13 = zext i32 %v0 to i64
  %v14 = getelementptr float, ptr %p3, i64 %v13
  store float %v12, ptr %v14, align 4
  br label %merge5
else4:
  br label %merge5
merge5:
  br label %next
next:
  %following = add i64 %index, 1
  %again = icmp ult i64 %following, %last
  br i1 %again, label %group, label %take
finished:
  ret void
}
