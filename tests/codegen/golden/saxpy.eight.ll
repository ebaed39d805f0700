; saxpy: 8 lanes
declare i8 @llvm.cttz.i8(i8, i1)
declare <8 x float> @llvm.masked.load.v8f32.p0(ptr, i32, <8 x i1>, <8 x float>)
declare void @llvm.masked.store.v8f32.p0(<8 x float>, ptr, i32, <8 x i1>)

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
  %v0 = mul i32 %group32, 8
  %v1 = insertelement <8 x i32> poison, i32 %v0, i64 0
  %v2 = shufflevector <8 x i32> %v1, <8 x i32> poison, <8 x i32> zeroinitializer
  %v3 = add <8 x i32> %v2, <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v4 = insertelement <8 x i32> poison, i32 %p0, i64 0
  %v5 = shufflevector <8 x i32> %v4, <8 x i32> poison, <8 x i32> zeroinitializer
  %v6 = icmp ult <8 x i32> %v3, %v5
  %v7 = xor <8 x i1> %v6, splat (i1 true)
  %v10 = bitcast <8 x i1> %v6 to i8
  %v11 = icmp ne i8 %v10, 0
  br i1 %v11, label %run9, label %after10
run9:
  %v12 = bitcast <8 x i1> %v6 to i8
  %v13 = call i8 @llvm.cttz.i8(i8 %v12, i1 true)
  %v14 = zext i8 %v13 to i64
  %v15 = extractelement <8 x i32> %v3, i64 %v14
  %v16 = zext i32 %v15 to i64
  %v17 = sub i64 %v16, %v14
  %v18 = getelementptr float, ptr %p2, i64 %v17
  %v19 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %v18, i32 4, <8 x i1> %v6, <8 x float> zeroinitializer)
  %v20 = insertelement <8 x float> poison, float %p1, i64 0
  %v21 = shufflevector <8 x float> %v20, <8 x float> poison, <8 x i32> zeroinitializer
  %v22 = fmul <8 x float> %v21, %v19
  %v23 = bitcast <8 x i1> %v6 to i8
  %v24 = call i8 @llvm.cttz.i8(i8 %v23, i1 true)
  %v25 = zext i8 %v24 to i64
  %v26 = extractelement <8 x i32> %v3, i64 %v25
  %v27 = zext i32 %v26 to i64
  %v28 = sub i64 %v27, %v25
  %v29 = getelementptr float, ptr %p3, i64 %v28
  %v30 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %v29, i32 4, <8 x i1> %v6, <8 x float> zeroinitializer)
  %v31 = fadd <8 x float> %v22, %v30
  %v32 = bitcast <8 x i1> %v6 to i8
  %v33 = call i8 @llvm.cttz.i8(i8 %v32, i1 true)
  %v34 = zext i8 %v33 to i64
  %v35 = extractelement <8 x i32> %v3, i64 %v34
  %v36 = zext i32 %v35 to i64
  %v37 = sub i64 %v36, %v34
  %v38 = getelementptr float, ptr %p3, i64 %v37
  call void @llvm.masked.store.v8f32.p0(<8 x float> %v31, ptr %v38, i32 4, <8 x i1> %v6)
  br label %after10
after10:
  br label %next
next:
  %following = add i64 %index, 1
  %again = icmp ult i64 %following, %last
  br i1 %again, label %group, label %take
finished:
  ret void
}
